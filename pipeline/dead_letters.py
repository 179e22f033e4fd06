"""Dead letters: refused records, with their bytes, their place and a reason people understand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from pipeline.lanes import is_frame
from schemas.frames import read_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.bulk import Fetch
    from pipeline.decode import Refused
    from pipeline.placing import Misplaced

TOPIC = "tally.dead-letters"

VALUE_BYTES_MAX = 1 << 20
"""What is kept of a refused record. Its place says where the whole is, while the log has it."""

MAX_BYTES = 2 * VALUE_BYTES_MAX
"""Of a dead letter with its headers, as the topic and its producer allow."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record, or one row of a frame as JSON. Its place tells repeated writes apart.

    `value` is cut off at a limit; `bytes_total` is what it was.
    """

    partition: int
    offset: int
    row: int
    reason: str
    value: bytes
    bytes_total: int

    def key(self) -> bytes:
        """Its place: a repeated write after a crash has the same key."""
        return f"{self.partition}/{self.offset}/{self.row}".encode()

    def headers(self) -> list[tuple[str, bytes]]:
        """What goes beside its bytes."""
        return [
            ("tally-partition", str(self.partition).encode()),
            ("tally-offset", str(self.offset).encode()),
            ("tally-row", str(self.row).encode()),
            ("tally-reason", self.reason.encode()),
            ("tally-bytes", str(self.bytes_total).encode()),
        ]


def dead_letters(
    fetch: Fetch, refused: Iterable[Refused], misplaced: Iterable[Misplaced]
) -> Iterator[DeadLetter]:
    """What the decoder and the shard refused of a fetch."""
    partition = fetch.records.partition
    for bad in refused:
        yield _letter(partition, bad.offset, bad.row, bad.reason, bad.value)
    for offset, strays in groupby(misplaced, key=attrgetter("offset")):
        at = int(np.searchsorted(fetch.records.offsets, offset))
        value = fetch.records.values[at] or b""
        frame = read_frame(value) if is_frame(fetch.records.headers[at]) else None
        for stray in strays:
            # Of a frame with many strays each letter would otherwise hold all the others, too.
            written = value if frame is None else _as_json(frame.document(stray.row))
            yield _letter(partition, offset, stray.row, stray.reason, written)


def _letter(partition: int, offset: int, row: int, reason: str, value: bytes) -> DeadLetter:
    return DeadLetter(partition, offset, row, reason, value[:VALUE_BYTES_MAX], len(value))


def _as_json(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
