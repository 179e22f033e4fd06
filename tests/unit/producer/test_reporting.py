"""A producer's report of its load."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.planning.load import COUNTERS_MAX
from pipeline.producer import reporting
from pipeline.producer.packing import Load
from pipeline.producer.reporting import LoadMeter


def load(rows_by_counter: dict[str, int]) -> Load:
    return Load(pa.array(list(rows_by_counter)), np.array(list(rows_by_counter.values())))


def test_rows_add_up_until_they_are_told() -> None:
    meter = LoadMeter("p1")
    meter.add(load({"a:x": 100, "a:y": 3, "a:z": 1}))
    meter.add(load({"a:x": 50, "a:q": 2}))

    report = meter.take(5_000, 1_000, {3: 12.0}, 0)

    assert report is not None
    assert (report.producer, report.at_ms, report.interval_ms) == ("p1", 5_000, 1_000)
    assert report.counters == [("a:x", 150), ("a:y", 3), ("a:q", 2)]
    assert report.rows == 156
    assert report.delivery_p99_ms == {3: 12.0}
    assert meter.take(6_000, 1_000, {}, 0) is None


def test_only_what_matters_is_told() -> None:
    for rows, interval_ms, p99_ms, retries, is_told in [
        (9, 1_000, {}, 0, False),
        (10, 1_000, {}, 0, True),
        (15, 2_000, {}, 0, False),
        (2, 1_000, {1: 99.0}, 0, False),
        (2, 1_000, {1: 100.0}, 0, True),
        (2, 1_000, {}, 1, True),
    ]:
        meter = LoadMeter("p1")
        meter.add(load({"a:x": rows}))
        assert (meter.take(0, interval_ms, p99_ms, retries) is not None) is is_told


def test_of_many_counters_the_heaviest_are_told() -> None:
    meter = LoadMeter("p1")
    for first in range(0, 50_000, 1_000):
        numbers = range(first, first + 1_000)
        meter.add(load({f"a:{n}": 1_002 if n % 997 == 0 else 2 for n in numbers}))

    report = meter.take(0, 1_000, {}, 0)

    assert report is not None
    assert len(report.counters) <= COUNTERS_MAX
    assert {name for name, rows in report.counters if rows > 1_000} == {
        f"a:{n}" for n in range(0, 50_000, 997)
    }


def test_only_so_many_counters_are_kept_until_a_report_and_the_heaviest_are_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "_COUNTERS_KEPT", 300)
    meter = LoadMeter("p1")
    meter.add(load({"a:heavy": 5_000}))
    for first in range(0, 5_000, 200):
        meter.add(load({f"a:{n}": 2 for n in range(first, first + 200)}))
        assert len(meter._by_counter) <= 300 + COUNTERS_MAX
    report = meter.take(0, 1_000, {}, 0)
    assert report is not None
    assert report.counters[0] == ("a:heavy", 5_000)
    assert report.rows == 15_000
