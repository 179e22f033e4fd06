import json
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from pipeline import why_refused
from pipeline.decode import COLUMNS, RETRY_REASON, TOMBSTONE_REASON, Control, decode
from pipeline.why_refused import NO_TIME_REASON, Refused
from schemas.events import Event, check_event, read_event
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame, frame_bytes
from schemas.records import Headers, Records
from schemas.times import AT_MAX_MS

LOG_MS = 1_790_000_000_000
FRAME: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
JSON: Headers = ()


def fetched(*records: tuple[bytes | None, Headers], timestamp_ms: int = LOG_MS) -> Records:
    """A fetch whose offsets have gaps and whose timestamps rise by a millisecond."""
    count = len(records)
    return Records(
        partition=3,
        offsets=np.arange(count, dtype=np.int64) * 10 + 100,
        timestamps_ms=np.arange(count, dtype=np.int64) + timestamp_ms,
        keys=[b"key"] * count,
        values=[value for value, _ in records],
        headers=[headers for _, headers in records],
    )


def event(counter: str, **fields: object) -> bytes:
    return json.dumps({"counter": counter, **fields}).encode()


def counters(columns: pa.Table) -> Sequence[object]:
    found: list[object] = columns.column("counter").to_pylist()
    return found


def test_an_event_becomes_a_row_with_its_place() -> None:
    full = event("a:1", delta=-2, at=5, member="ada", region="eu", id="x", colour="ignored")
    decoded = decode(fetched((event("a:0"), JSON), (full, JSON)))
    assert decoded.columns.schema == COLUMNS
    assert decoded.columns.to_pylist() == [
        {
            "counter": "a:0", "delta": 1, "at": LOG_MS, "member": None, "region": "", "id": None,
            "offset": 100, "row": 0, "log_ms": LOG_MS,
        },
        {
            "counter": "a:1", "delta": -2, "at": 5, "member": "ada", "region": "eu", "id": "x",
            "offset": 110, "row": 0, "log_ms": LOG_MS + 1,
        },
    ]  # fmt: skip
    assert decoded.refused == []
    assert decoded.control == []


def test_an_empty_fetch_has_empty_columns() -> None:
    decoded = decode(fetched())
    assert decoded.columns.schema == COLUMNS
    assert decoded.columns.num_rows == 0


def test_json_and_frames_keep_the_order_of_the_log() -> None:
    decoded = decode(
        fetched(
            (encode_frame({"counter": ["f:0", "f:1"]}), FRAME),
            (event("j:0"), JSON),
            (encode_frame({"counter": []}), FRAME),
            (encode_frame({"counter": ["f:2"], "at": [7]}), FRAME),
            (event("j:1"), JSON),
        )
    )
    assert counters(decoded.columns) == ["f:0", "f:1", "j:0", "f:2", "j:1"]
    assert decoded.columns.column("offset").to_pylist() == [100, 100, 110, 130, 140]
    assert decoded.columns.column("row").to_pylist() == [0, 1, 0, 0, 0]
    assert decoded.columns.column("at").to_pylist() == [LOG_MS, LOG_MS, LOG_MS + 1, 7, LOG_MS + 4]


def test_one_bad_record_costs_that_record_only() -> None:
    decoded = decode(
        fetched((event("a:0"), JSON), (b"{", JSON), (b"{}", JSON), (event("a:1"), JSON))
    )
    assert counters(decoded.columns) == ["a:0", "a:1"]
    assert decoded.refused == [
        Refused(110, 0, "not JSON", b"{"),
        Refused(120, 0, "counter: missing", b"{}"),
    ]


def test_only_what_is_bad_is_read_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def counted(value: bytes) -> Event:
        asked.append(value)
        return read_event(value)

    monkeypatch.setattr("pipeline.decode_json.read_event", counted)
    values = [event(f"a:{number}") for number in range(10_000)]
    values[5_000] = b'{"counter":7}'
    values[9_999] = event("a:1", delta=2.0)
    decoded = decode(fetched(*((value, JSON) for value in values)))
    assert asked == [values[5_000], values[9_999]]
    assert decoded.columns.num_rows == 9_999
    assert [one.offset for one in decoded.refused] == [50_100]


def test_a_bad_row_of_a_frame_costs_that_row_only() -> None:
    frame = encode_frame(
        {"counter": ["a:0", "a:1", "a"], "delta": [1, 0, 3], "id": [None, "é", None]}
    )
    decoded = decode(fetched((frame, FRAME)))
    assert counters(decoded.columns) == ["a:0"]
    assert decoded.refused == [
        Refused(
            100, 1, "delta: 0 is not allowed", '{"counter": "a:1", "delta": 0, "id": "é"}'.encode()
        ),
        Refused(
            100, 2, "counter: has no family; write family:key", b'{"counter": "a", "delta": 3}'
        ),
    ]


def test_values_that_do_not_fit_a_column_cost_their_row_only() -> None:
    table = pa.table(
        {
            "counter": pa.array(["a:0", "a:1", "x" * 300]).dictionary_encode(),
            "delta": pa.array([2**64 - 1, 1, 1], pa.uint64()),
        }
    )
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    decoded = decode(fetched((sink.getvalue().to_pybytes(), FRAME)))
    assert counters(decoded.columns) == ["a:1"]
    assert [(one.row, one.reason) for one in decoded.refused] == [
        (0, "delta: beyond 2^40"),
        (2, "counter: longer than 256 bytes"),
    ]


def test_a_frame_that_cannot_be_read_is_one_refused_record() -> None:
    decoded = decode(fetched((b"junk", FRAME), (event("a:0"), JSON)))
    assert counters(decoded.columns) == ["a:0"]
    reason = "frame: not an Arrow IPC stream"
    assert decoded.refused == [Refused(100, 0, reason, b"junk", is_frame=True)]


def test_a_tombstone_is_refused() -> None:
    decoded = decode(fetched((None, JSON), (None, FRAME), (event("a:0"), JSON)))
    assert counters(decoded.columns) == ["a:0"]
    assert [(one.offset, one.reason) for one in decoded.refused] == [
        (100, TOMBSTONE_REASON),
        (110, TOMBSTONE_REASON),
    ]


def test_other_kinds_of_record_are_handed_on_unread() -> None:
    rules: Headers = (("tally-kind", b"rules"), *FRAME)
    beat: Headers = (("tally-kind", b"heartbeat"),)
    decoded = decode(fetched((b"{", rules), (event("a:0"), JSON), (None, beat)))
    assert counters(decoded.columns) == ["a:0"]
    assert decoded.refused == []
    assert decoded.control == [
        Control(100, LOG_MS, "rules", b"key", b"{"),
        Control(120, LOG_MS + 2, "heartbeat", b"key", None),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        (("tally-kind", b"increments"),),
        (("tally-kind", b"rules"), ("tally-kind", b"increments")),
        (("trace", b"\xff"),),
        (("content-type", b"application/json"),),
    ],
)
def test_other_headers_leave_an_event_an_event(headers: Headers) -> None:
    assert counters(decode(fetched((event("a:0"), headers))).columns) == ["a:0"]


def test_a_content_type_may_carry_parameters() -> None:
    headers: Headers = (("content-type", b"Application/vnd.apache.arrow.stream; version=1"),)
    assert counters(decode(fetched((encode_frame({"counter": ["a:0"]}), headers))).columns) == [
        "a:0"
    ]


@pytest.mark.parametrize(
    ("value", "headers"), [(event("a:0"), JSON), (encode_frame({"counter": ["a:0"]}), FRAME)]
)
def test_an_event_without_a_time_needs_one_from_the_log(value: bytes, headers: Headers) -> None:
    decoded = decode(fetched((value, headers), (event("a:1", at=1), JSON), timestamp_ms=-1))
    assert counters(decoded.columns) == ["a:1"]
    assert [one.reason for one in decoded.refused] == [NO_TIME_REASON]


def test_times_as_text_and_as_numbers_mix() -> None:
    times = ["1970-01-01T00:00:01Z", 2000, None, "1970-01-01T01:00:03+01:00", 2**70, "soon"]
    decoded = decode(fetched(*((event(f"a:{n}", at=at), JSON) for n, at in enumerate(times))))
    assert decoded.columns.column("at").to_pylist() == [1000, 2000, LOG_MS + 2, 3000]
    assert [one.offset for one in decoded.refused] == [140, 150]


def test_the_answer_does_not_depend_on_how_the_log_was_fetched() -> None:
    values = [event(f"a:{n}", delta=n % 7) for n in range(9_000)]
    whole = decode(fetched(*((value, JSON) for value in values)))
    singly = [decode(fetched((value, JSON))) for value in values[:50]]
    expected = [row["counter"] for one in singly for row in one.columns.to_pylist()]
    assert counters(whole.columns)[: len(expected)] == expected
    assert len(whole.refused) == len([n for n in range(9_000) if n % 7 == 0])


def test_columns_of_different_length_are_a_bug_of_the_transport() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Records(0, np.zeros(1, np.int64), np.zeros(1, np.int64), [None], [], [])


def test_a_retry_of_a_time_that_no_event_may_have_is_a_bad_retry() -> None:
    def retried(timestamp_ms: int) -> Records:
        return fetched((event("a:b"), (("tally-retry", b"5/0/%d" % timestamp_ms),)))

    assert decode(retried(AT_MAX_MS)).columns["at"].to_pylist() == [AT_MAX_MS]
    for timestamp_ms in (AT_MAX_MS + 1, 999_999_999_999_999):
        assert [bad.reason for bad in decode(retried(timestamp_ms)).refused] == [RETRY_REASON]


def test_the_model_is_asked_once_about_rows_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def ask(document: object) -> Event:
        asked.append(document)
        return check_event(document)

    monkeypatch.setattr(why_refused, "check_event", ask)
    times = pa.array([LOG_MS] * 3000).cast(pa.timestamp("ms", "UTC"))
    frame = frame_bytes(pa.record_batch([pa.array(["likes"] * 3000), times], ["counter", "at"]))
    decoded = decode(fetched((frame, FRAME), (event("a:b"), JSON), (frame, FRAME)))
    assert len(asked) == 1
    assert [(one.offset, one.row) for one in decoded.refused] == [
        (offset, row) for offset in (100, 120) for row in range(3000)
    ]
    value = b'{"counter": "likes", "at": %d}' % LOG_MS
    assert {(one.value, one.reason) for one in decoded.refused} == {
        (value, "counter: has no family; write family:key")
    }


def test_bad_rows_of_timestamps_cost_as_little_as_others() -> None:
    """A column was converted anew for each of them, which took most of a minute for a frame."""
    at = pa.array(range(20_000)).cast(pa.timestamp("ms", "UTC"))
    frame = frame_bytes(pa.record_batch([pa.array(["likes"] * 20_000), at], ["counter", "at"]))
    records = fetched((frame, FRAME))
    started_s = time.process_time()
    decoded = decode(records)
    assert time.process_time() - started_s < 10
    assert json.loads(decoded.refused[-1].value) == {"counter": "likes", "at": 19_999}
