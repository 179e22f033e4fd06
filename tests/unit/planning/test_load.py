"""Load reports: what is written is read, and nothing that is none gets in."""

import json
from typing import Any

import pytest

from pipeline.errors import BadInputError
from pipeline.planning.load import BYTES_MAX, COUNTERS_MAX, LoadReport, decode, encode, heaviest

GOOD: dict[str, Any] = {
    "producer": "6f1c",
    "at_ms": 1_700_000_000_000,
    "interval_ms": 1000,
    "counters": [["likes:a", 30], ["likes:b", 12]],
    "rows": 60,
    "delivery_p99_ms": {"3": 12.5},
    "retries": 2,
}


def test_a_report_is_read_as_it_was_written() -> None:
    report = LoadReport("6f1c", 17, 1000, [("likes:a", 30)], 60, {3: 12.5}, 2)
    assert decode(encode(report)) == report


def test_the_form_in_the_log_is_pinned() -> None:
    report = decode(json.dumps(GOOD).encode())
    assert report.counters == [("likes:a", 30), ("likes:b", 12)]
    assert report.delivery_p99_ms == {3: 12.5}
    assert json.loads(encode(report)) == GOOD


def test_fields_of_other_versions_are_ignored_and_latencies_may_be_left_out() -> None:
    short = {key: GOOD[key] for key in ("producer", "at_ms", "interval_ms", "counters", "rows")}
    report = decode(json.dumps({**short, "colour": "red"}).encode())
    assert (report.delivery_p99_ms, report.retries) == ({}, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"producer": ""},
        {"producer": "x" * 65},
        {"producer": None},
        {"at_ms": -1},
        {"interval_ms": 0},
        {"interval_ms": 3_600_001},
        {"rows": 2**60},
        {"rows": 1.5},
        {"counters": [["likes:a", -1]]},
        {"counters": [["", 1]]},
        {"counters": [["x" * 257, 1]]},
        {"counters": [["likes:a"]]},
        {"counters": [["likes:a", 1]] * (COUNTERS_MAX + 1)},
        {"delivery_p99_ms": {"a": 1}},
        {"delivery_p99_ms": {"-1": 1}},
        {"delivery_p99_ms": {"1": -1}},
        {"delivery_p99_ms": {str(n): 1 for n in range(4097)}},
        {"retries": "2"},
    ],
)
def test_a_report_beyond_its_bounds_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="not a load report"):
        decode(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("junk", [b"", b"x", b"[]", b"null", b"\xff", b'{"a":' * 5000, b'"\xc3'])
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(BadInputError, match="not a load report"):
        decode(junk)


def test_a_huge_record_is_refused_unread() -> None:
    huge = json.dumps(GOOD).encode() + b" " * BYTES_MAX
    with pytest.raises(BadInputError, match="more than"):
        decode(huge)


def test_the_greatest_report_there_may_be_is_read() -> None:
    counters = [("a:" + "\x01" * 254, 2**53)] * COUNTERS_MAX
    latencies = dict.fromkeys(range(4096), 999999999.123)
    report = LoadReport("p" * 64, 2**53, 3_600_000, counters, 2**53, latencies, 2**53)
    assert decode(encode(report)) == report


def test_the_heaviest_counters_are_named_first() -> None:
    rows = {f"likes:{n}": (n * 37) % 1000 for n in range(1000)}
    found = heaviest(rows)
    assert [count for _, count in found] == list(range(999, 899, -1))
    assert all(rows[counter] == count for counter, count in found)
    assert heaviest({}) == []
