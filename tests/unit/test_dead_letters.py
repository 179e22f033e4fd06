"""What a dead letter holds: enough to understand and retry, and never too much to be written."""

import json
from dataclasses import replace

import numpy as np

from pipeline.absorb import absorb
from pipeline.dead_letters import MAX_BYTES, VALUE_BYTES_MAX, dead_letters
from pipeline.fetches import Fetch
from pipeline.lanes import RETRY_HEADER
from pipeline.placing import Misplaced
from pipeline.shard import Shard
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


def test_a_refused_retry_is_a_letter_of_every_build_that_counts_its_place() -> None:
    counts_from_ms = 1_794_268_800_000
    now_ms, old = counts_from_ms + 48 * 3_600_000, (50, 0, counts_from_ms - 3_600_000)
    found = {}
    for build, since_ms in (("whole", 0), ("from a day on", counts_from_ms)):
        shard = Shard(0, position=100, log_ms=now_ms, counts_from_ms=since_ms)
        shard.refused.refuse(old)
        records = Records(
            0,
            np.array([100]),
            np.array([now_ms]),
            [None],
            [b'{"counter": "no family"}'],
            [((RETRY_HEADER, "{}/{}/{}".format(*old).encode()),)],
        )
        found[build] = absorb(shard, Fetch(100, 101, records)).dead_letters
    assert [(one.offset, one.timestamp_ms) for one in found["whole"]] == [(100, old[2])]
    assert found["from a day on"] == found["whole"]


def test_a_letter_of_before_a_build_counts_is_not_its_own_though_the_broker_set_its_clock() -> None:
    shard = Shard(4, position=10, log_ms=900, counts_from_ms=1_000)
    bad = fetch(b"x", b"y", b"z")
    records = replace(bad.records, timestamps_ms=np.array([999, 1_500, 950]))
    letters = absorb(shard, Fetch(10, 13, records)).dead_letters
    assert [one.offset for one in letters] == [11, 12]
