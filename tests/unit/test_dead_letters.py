"""What a dead letter holds: enough to understand and retry, and never too much to be written."""

import json

import numpy as np

from pipeline.dead_letters import MAX_BYTES, VALUE_BYTES_MAX, dead_letters
from pipeline.fetches import Fetch
from pipeline.placing import Misplaced
from pipeline.why_refused import Refused
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Records


def fetch(*values: bytes, is_frame: bool = False) -> Fetch:
    headers = (("content-type", FRAME_CONTENT_TYPE.encode()),) if is_frame else ()
    size = len(values)
    records = Records(
        4,
        np.arange(10, 10 + size),
        np.zeros(size, np.int64),
        [None] * size,
        list(values),
        [headers] * size,
    )
    return Fetch(10, 10 + size, records)


def test_a_misplaced_json_record_is_kept_as_it_was() -> None:
    [letter] = dead_letters(fetch(b"a", b"b"), [], [Misplaced(11, 0, "too late")], {})
    assert (letter.partition, letter.offset, letter.row, letter.value) == (4, 11, 0, b"b")
    assert letter.key() == b"4/11/0"
    assert dict(letter.headers())["tally-reason"] == b"too late"


def test_a_misplaced_row_of_a_frame_is_kept_as_json_without_the_other_rows() -> None:
    frame = encode_frame({"counter": ["likes:a", "likes:b"], "delta": [1, 2], "at": [5, 6]})
    strays = [Misplaced(10, 0, "too late"), Misplaced(10, 1, "too late")]
    letters = list(dead_letters(fetch(frame, is_frame=True), [], strays, {}))
    written = [json.loads(letter.value) for letter in letters]
    assert [row["counter"] for row in written] == ["likes:a", "likes:b"]
    assert [row["at"] for row in written] == [5, 6]


def test_a_large_record_is_cut_and_its_size_told() -> None:
    huge = b"x" * (VALUE_BYTES_MAX + 5)
    [letter] = dead_letters(fetch(huge), [Refused(10, 0, "not JSON", huge)], [], {})
    assert len(letter.value) == VALUE_BYTES_MAX < MAX_BYTES
    assert dict(letter.headers())["tally-bytes"] == str(len(huge)).encode()
