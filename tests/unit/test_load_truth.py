"""The truth of a load, its pace and its latencies: computed here by other means."""

import json
import random
from collections import Counter

import pytest

from pipeline.load import truth as truths
from pipeline.load.generator import Generator
from pipeline.load.latencies import Latencies
from pipeline.load.mix import Mix
from pipeline.load.running import BATCH_ROWS, Order, due, is_over
from pipeline.load.truth import Truth, documents
from schemas.addresses import KafkaAddress

NOW_MS = 1_760_000_000_000
REGIONS = ("eu", "us", "")


@pytest.mark.parametrize("kept", [10, 1 << 20], ids=["compacted often", "at the end"])
def test_the_truth_is_the_sum_of_all_rows(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truths, "_ROWS_KEPT", kept)
    mix = Mix(counters=20, regions=REGIONS, late=0.3, removals=0.3)
    generators = [Generator(mix, seed, "run") for seed in (1, 2)]
    parts = [Truth(len(REGIONS)) for _ in generators]
    expected: Counter[tuple[str, str, int, bool]] = Counter()
    for generator, part in zip(generators, parts, strict=True):
        for minute in range(4):
            load = generator.make(700, NOW_MS + minute * 40_000)
            part.add(load.increments)
            for row in load.columns.to_pylist():
                window = row["at"] // 60_000 * 60_000
                key = (row["counter"], row["region"], window, row["delta"] > 0)
                expected[key] += abs(row["delta"])

    whole = Truth(len(REGIONS))
    for part in parts:
        whole.merge(part.sums())
    names = [mix.counter(number) for number in range(1, 21)]
    found: Counter[tuple[str, str, int, bool]] = Counter()
    for line in documents(whole.sums(), names, REGIONS):
        row = json.loads(line)
        assert row["count"] == row["added"] - row["removed"]
        place = (row["counter"], row["region"], row["minute"])
        assert (*place, True) not in found
        found[*place, True] = row["added"]
        found[*place, False] = row["removed"]
    assert +found == +expected


def test_the_truth_of_nothing_is_empty() -> None:
    assert list(documents(Truth(2).sums(), ["a:b"], ["eu", "us"])) == []


def order(rate: float, seconds: float | None, events: int | None) -> Order:
    return Order(
        KafkaAddress(""), Mix(), rate, seconds, events, "random", (1,), "run", wants_truth=False
    )


@pytest.mark.parametrize(
    ("asked", "elapsed_s", "sent", "expected"),
    [
        (order(1_000, 10, None), 0.5, 400, 100),
        (order(1_000, 10, None), 0.5, 600, 0),
        (order(1_000, 10, None), 99, 9_900, 100),
        (order(1e9, 10, None), 1, 0, BATCH_ROWS),
        (order(1_000, None, 450), 0.5, 400, 50),
        (order(0, None, 450), 0.5, 400, 50),
        (order(0, 10, None), 0.5, 400, BATCH_ROWS),
    ],
)
def test_what_is_due_goes_by_the_clock(
    asked: Order, elapsed_s: float, sent: int, expected: int
) -> None:
    assert due(asked, elapsed_s, sent) == expected


def test_it_is_over_when_time_or_events_are() -> None:
    assert is_over(order(10, 5, None), 5.0, 0)
    assert not is_over(order(10, 5, None), 4.9, 1_000)
    assert is_over(order(10, None, 7), 0.1, 7)
    assert not is_over(order(10, None, 7), 1_000, 6)


def test_quantiles_of_latencies_are_right_within_a_few_percent() -> None:
    dice = random.Random(5)
    values = [dice.lognormvariate(3, 1) for _ in range(5_000)]
    one, other = Latencies(), Latencies()
    for number, value in enumerate(values):
        (one if number % 3 else other).add(value)
    one.merge(other)
    for share in (0.5, 0.99):
        exact = sorted(values)[round(share * len(values)) - 1]
        found = one.quantile_ms(share)
        assert found is not None
        assert abs(found / exact - 1) < 0.03
    assert Latencies().quantile_ms(0.5) is None


@pytest.mark.parametrize("extreme", [-1.0, 0.0, 1e-9, 1e15])
def test_extreme_latencies_are_counted(extreme: float) -> None:
    latencies = Latencies()
    latencies.add(extreme)
    assert latencies.quantile_ms(0.99) is not None
