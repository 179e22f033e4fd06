"""Lines are checked by the pipeline's decoder, and get ids that name their place."""

import json

import pytest

from pipeline.produce.checking import check
from pipeline.produce.reading import LINE_BYTES_MAX, Chunk, read_chunks

NOW_MS = 1_760_000_000_000


def chunk_of(data: bytes, begin: int = 0, number: int = 1) -> Chunk:
    blocks = [data]
    [chunk] = read_chunks(lambda _size: blocks.pop() if blocks else b"", begin, number)
    return chunk


def test_good_lines_are_kept_as_they_are_and_others_told_with_their_number() -> None:
    lines = [
        b' {"counter": "a:b", "unknown": [1, 2]}\r',
        b"",
        b"oops",
        b'{"counter":"a:b","delta":0}',
        b"  ",
        b'{"counter":"a:c","delta":-3,"at":5}',
    ]
    checked = check(chunk_of(b"\n".join(lines) + b"\n", number=101), NOW_MS, None)
    assert checked.lines == [lines[0].strip(), lines[5]]
    assert checked.columns.to_pylist() == [
        {"counter": "a:b", "delta": 1, "at": NOW_MS, "member": None, "region": "", "id": None},
        {"counter": "a:c", "delta": -3, "at": 5, "member": None, "region": "", "id": None},
    ]
    assert checked.refused == [(103, "not JSON"), (104, "delta: 0 is not allowed")]


def test_a_line_that_is_longer_than_a_message_is_refused() -> None:
    long = b'{"counter":"a:b","x":"%s"}' % (b"y" * LINE_BYTES_MAX)
    checked = check(chunk_of(b'{"counter":"a:b"}\n' + long + b"\nbad\n"), NOW_MS, None)
    assert len(checked.lines) == 1
    assert checked.refused == [(2, f"longer than {LINE_BYTES_MAX} bytes"), (3, "not JSON")]


@pytest.mark.parametrize(
    "long",
    [
        b'{"counter":"a:b"}' + b" " * LINE_BYTES_MAX + b"and more",
        b" " * LINE_BYTES_MAX + b' {"counter":"a:b"}',
        b'{"counter":"a:b"' + b" " * LINE_BYTES_MAX + b"}",
    ],
    ids=["more after an event", "an event after blanks", "blanks in an event"],
)
def test_a_line_is_not_taken_for_what_its_beginning_says_where_blanks_follow(long: bytes) -> None:
    """Only that much of it was read. It would be sent, passed over, or said to be no JSON."""
    checked = check(chunk_of(long + b"\nbad\n"), NOW_MS, None)
    assert checked.lines == []
    assert checked.refused == [(1, f"longer than {LINE_BYTES_MAX} bytes"), (2, "not JSON")]


@pytest.mark.parametrize("data", [b"\n", b"\n\n  \n", b"bad\n"])
def test_a_chunk_without_events_is_empty(data: bytes) -> None:
    for once in (None, "0123"):
        checked = check(chunk_of(data), NOW_MS, once)
        assert (checked.lines, checked.columns.num_rows) == ([], 0)


def test_with_once_a_line_without_an_id_gets_the_byte_it_begins_at() -> None:
    lines = [
        b'{"counter":"a:b","kept":{"x":1}}',
        b'{"counter":"a:b","id":"own"}',
        b'  {"id":null,"counter":"a:b"} ',
        b'{"counter":"a:b","id":"other","id":null}',
    ]
    checked = check(chunk_of(b"\n".join(lines) + b"\n", begin=1000), NOW_MS, "f00d")
    begins = [1000 + sum(len(line) + 1 for line in lines[:n]) for n in range(4)]
    expected = ["f00d:1000", "own", f"f00d:{begins[2]}", f"f00d:{begins[3]}"]
    assert checked.columns["id"].to_pylist() == expected
    # Of a key that occurs twice the last one counts, for Python as for the pipeline.
    assert [json.loads(line)["id"] for line in checked.lines] == expected
    assert json.loads(checked.lines[0])["kept"] == {"x": 1}
    again = check(chunk_of(b"\n".join(checked.lines) + b"\n"), NOW_MS, None)
    assert again.columns["id"].to_pylist() == expected
