"""Lines in chunks, with the byte each begins at. Memory is bounded, whatever the file holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    Read = Callable[[int], bytes]

BLOCK_BYTES = 1 << 20
"""How much is read at once, and so about how large a chunk is."""

LINE_BYTES_MAX = 900_000
"""With a little around it, a longer line would be more than Kafka takes as one message."""

_HELD_BYTES_MAX = LINE_BYTES_MAX + 1


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Lines that follow each other, without their line feeds.

    `begin` and `end` are their bytes in the file, `offsets` where each begins, and `number` the
    first one's number, from 1. A line longer than LINE_BYTES_MAX is cut short, but stays longer.
    """

    begin: int
    end: int
    number: int
    lines: list[bytes]
    offsets: NDArray[np.int64]


def read_chunks(read: Read, begin: int = 0, number: int = 1) -> Iterator[Chunk]:
    """All lines, from `begin` on, where line `number` begins.

    `read` gives up to so many bytes, none at the end. A last line needs no line feed.
    """
    held, dropped = b"", 0
    while block := read(BLOCK_BYTES):
        first, *others = block.split(b"\n")
        line = held + first
        dropped += max(0, len(line) - _HELD_BYTES_MAX)
        held = line[:_HELD_BYTES_MAX]
        if not others:
            continue
        *whole, rest = others
        chunk = _chunk(begin, number, [held, *whole], dropped)
        yield chunk
        begin, number = chunk.end, number + len(chunk.lines)
        dropped = max(0, len(rest) - _HELD_BYTES_MAX)
        held = rest[:_HELD_BYTES_MAX]
    if held:
        offsets = np.array([begin], np.int64)
        yield Chunk(begin, begin + len(held) + dropped, number, [held], offsets)


def _chunk(begin: int, number: int, lines: list[bytes], dropped: int) -> Chunk:
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1) + begin + dropped
    offsets = np.concatenate([[begin], ends[:-1]])
    return Chunk(begin, int(ends[-1]), number, lines, offsets)


def lines_before(file: BinaryIO, offset: int) -> int:
    """How many lines end before a byte; the file stands there afterwards.

    Raises BadInputError if no line begins at it.
    """
    file.seek(0)
    left, lines, last = offset, 0, b"\n"
    while left and (block := file.read(min(left, BLOCK_BYTES))):
        left -= len(block)
        lines += block.count(b"\n")
        last = block[-1:]
    if left:
        raise BadInputError(f"the file ends before byte {offset}: it has {offset - left} bytes")
    if last != b"\n":
        raise BadInputError(f"no line begins at byte {offset}; give the byte after a line feed")
    return lines
