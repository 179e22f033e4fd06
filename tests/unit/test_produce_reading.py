"""Lines of a file in chunks: whole, in order, each with the byte it begins at."""

import io
import random
from collections.abc import Callable

import pytest

from pipeline.errors import BadInputError
from pipeline.produce import reading
from pipeline.produce.reading import LINE_BYTES_MAX, lines_before, read_chunks


def in_pieces(data: bytes, seed: int, largest: int) -> Callable[[int], bytes]:
    """A stream that gives what it likes, as pipes do."""
    dice, stream = random.Random(seed), io.BytesIO(data)
    return lambda size: stream.read(min(size, dice.randint(1, largest)))


def text(seed: int) -> bytes:
    dice = random.Random(seed)
    lines = [b"x" * dice.choice([0, 0, 1, 2, 7, 80]) for _ in range(dice.randint(0, 40))]
    return b"\n".join(lines)


@pytest.mark.parametrize("seed", range(60))
def test_chunks_are_the_lines_of_the_file_with_their_places(seed: int) -> None:
    data = text(seed)
    chunks = list(read_chunks(in_pieces(data, seed, largest=1 + seed), begin=0, number=1))
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for chunk in chunks for line in chunk.lines] == expected
    number, place = 1, 0
    for chunk in chunks:
        assert (chunk.begin, chunk.number) == (place, number)
        for line, offset in zip(chunk.lines, chunk.offsets.tolist(), strict=True):
            assert data[offset : offset + len(line)] == line
            assert offset == 0 or data[offset - 1 : offset] == b"\n"
        number += len(chunk.lines)
        place = chunk.end
    assert place == len(data)


def test_a_run_from_the_middle_has_places_and_numbers_of_the_whole() -> None:
    data = b"one\ntwo\nthree\n"
    file = io.BytesIO(data)
    assert lines_before(file, 4) == 1
    [chunk] = read_chunks(file.read, 4, 2)
    assert chunk.lines == [b"two", b"three"]
    assert (chunk.number, chunk.offsets.tolist(), chunk.end) == (2, [4, 8], 14)


@pytest.mark.parametrize("largest", [100_000, 10_000_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nafter\n"])
def test_a_line_that_is_too_long_is_cut_and_the_next_is_in_its_place(
    largest: int, end: bytes
) -> None:
    long = b"y" * (3 * LINE_BYTES_MAX + 5)
    data = b"before\n" + long + end
    chunks = list(read_chunks(in_pieces(data, 1, largest)))
    lines = [line for chunk in chunks for line in chunk.lines]
    offsets = [offset for chunk in chunks for offset in chunk.offsets.tolist()]
    assert [line[:6] for line in lines] == [b"before", b"yyyyyy", b"after"][: 2 + (len(end) > 1)]
    assert LINE_BYTES_MAX < len(lines[1]) <= reading.BLOCK_BYTES
    assert offsets == [0, 7, 7 + len(long) + 1][: len(lines)]
    assert chunks[-1].end == len(data)


@pytest.mark.parametrize(
    ("offset", "reason"), [(1, "no line begins at byte 1"), (9, "ends before byte 9: it has 8")]
)
def test_a_byte_where_no_line_begins_is_refused(offset: int, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        lines_before(io.BytesIO(b"one\ntwo\n"), offset)


def test_the_end_of_a_file_is_a_place_to_begin_if_its_last_line_has_ended() -> None:
    assert lines_before(io.BytesIO(b"one\ntwo\n"), 8) == 2
    assert lines_before(io.BytesIO(b""), 0) == 0
    with pytest.raises(BadInputError, match="no line begins"):
        lines_before(io.BytesIO(b"one\ntwo"), 7)
