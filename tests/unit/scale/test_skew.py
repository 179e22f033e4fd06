"""The simulation of skew: shares against sums by hand, the plan, and what workers bear."""

from xml.etree import ElementTree as ET
from zlib import crc32

import numpy as np
import pytest

from benchmarks import _skew_page as page
from benchmarks._pages import between
from benchmarks._scale_inputs import load_inputs
from benchmarks._skew import Loads, Skew, Way, assigned, measure, rate_max, workers_for
from benchmarks._skew_load import VIRAL, Counters, spread
from benchmarks._skew_plan import settle
from benchmarks._skew_plot import plot
from benchmarks.skew import DOCS, default_thresholds
from pipeline.planning.planner import Thresholds

THRESHOLDS = Thresholds(rate_max=1_000, delivery_p99_ms=500, cool_ms=60_000)


def shares_by_hand(
    weights: dict[str, float], shards: dict[str, int], partitions: int
) -> list[float]:
    loads = [0.0] * partitions
    for name, weight in weights.items():
        n = shards.get(name, 1)
        for shard in range(n):
            loads[(crc32(name.encode()) + shard) % partitions] += weight / n
    return loads


def test_counters_follow_zipfs_law_and_the_viral_one_has_its_share() -> None:
    counters = Counters.made(3, exponent=1.0, viral_share=0.45)
    harmonic = 1 + 1 / 2 + 1 / 3
    expected = {
        VIRAL: 0.45,
        "likes:post-1": 0.55 / harmonic,
        "likes:post-2": 0.55 / harmonic / 2,
        "likes:post-3": 0.55 / harmonic / 3,
    }
    assert list(counters.names) == list(expected)
    assert counters.shares.tolist() == pytest.approx(list(expected.values()))


@pytest.mark.parametrize("partitions", [1, 7, 8])
def test_shares_by_partition_are_what_they_are_by_hand(partitions: int) -> None:
    counters = Counters.made(200, exponent=0.9, viral_share=0.3)
    weights = dict(zip(counters.names, counters.shares.tolist(), strict=True))
    whole = counters.by_partition(partitions)
    assert whole.tolist() == pytest.approx(shares_by_hand(weights, {}, partitions))
    shards = {VIRAL: partitions, "likes:post-5": min(2, partitions)}
    found = spread(counters, whole, shards)
    assert found.tolist() == pytest.approx(shares_by_hand(weights, shards, partitions))
    assert found.sum() == pytest.approx(1)


def test_the_plan_splits_what_is_hot_and_nothing_else() -> None:
    usual, viral = Counters.made(1_000, 0.5), Counters.made(1_000, 0.5, viral_share=0.35)
    settled = settle(usual, viral, rate=10_000, partitions=64, thresholds=THRESHOLDS)
    # 3,500 rows a second of 1,000 that a shard may have: 8 shards have less than half of that.
    assert settled.shards == {VIRAL: 8}
    assert settled.changed_s == 1


def test_a_quiet_load_is_not_split() -> None:
    usual, viral = Counters.made(1_000, 0.5), Counters.made(1_000, 0.5, viral_share=0.4)
    settled = settle(usual, viral, rate=2_000, partitions=64, thresholds=THRESHOLDS)
    assert settled.shards == {}


def test_a_new_group_shares_the_partitions_out() -> None:
    owned = assigned(10, 4)
    assert sorted(place for one in owned for place in one) == list(range(10))
    assert sorted(map(len, owned)) == [2, 2, 3, 3]


def test_workers_for_an_even_load_and_for_one_that_no_number_bears() -> None:
    assert workers_for(np.full(8, 1 / 8), worth=4) == 4
    assert workers_for(np.full(8, 1 / 8), worth=3) == 4  # three would have three partitions each
    assert workers_for(np.array([0.6, 0.2, 0.1, 0.1]), worth=2) is None
    assert workers_for(np.array([0.5, 0.2, 0.2, 0.1]), worth=2) == 4


def test_the_highest_rate_is_found_to_a_hundredth() -> None:
    even = rate_max(lambda _: np.full(16, 1 / 16), 16, worker_rate=100.0)
    assert even == 1_600
    busy = rate_max(lambda _: np.array([0.3, 0.7]), 2, worker_rate=100.0)
    assert busy == pytest.approx(100 / 0.7, rel=0.01)


def test_a_rate_that_is_borne_beyond_one_that_is_not_does_not_count() -> None:
    def split_late(total: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([0.5, 0.5]) if total > 180 else np.array([0.7, 0.3])

    assert rate_max(split_late, 2, worker_rate=100.0) == pytest.approx(100 / 0.7, rel=0.01)


def test_the_plan_makes_partitions_even_and_lets_more_workers_be_busy() -> None:
    loads = Loads.made(1.0, count=20_000)
    found = measure(loads, 32, 10_000.0, THRESHOLDS)
    weights = dict(zip(loads.viral.names, loads.viral.shares.tolist(), strict=True))
    assert found.whole.busiest == pytest.approx(max(shares_by_hand(weights, {}, 32)))
    assert found.whole.workers is None
    assert found.whole.rate_max == pytest.approx(10_000 / found.whole.busiest)
    assert found.planned.busiest < 1.5 / 32
    assert found.planned.workers is not None
    assert found.even <= found.planned.workers <= 2 * found.even
    assert found.planned.rate_max > 4 * found.whole.rate_max


def test_the_page_has_what_the_simulation_finds_today() -> None:
    text = between((DOCS / "scale.md").read_text(), page.BEGIN, page.END)
    worker_rate = load_inputs().worker_rate("json")
    assert f"bears {worker_rate:,.0f} rows/s" in text, "run python -m benchmarks.skew --write"
    found = measure(Loads.made(1.0), 8, worker_rate, default_thresholds())
    line = f"| {' | '.join(page.row(found))} |"
    assert line in text.splitlines(), "run python -m benchmarks.skew --write"


def test_the_plot_is_a_document_with_three_lines_for_each_exponent() -> None:
    way = Way(0.25, 2, 4.0)
    found = [
        Skew(exponent, size, 1.0, 2, way, way, 1, 1) for exponent in (0.8, 1.2) for size in (8, 16)
    ]
    document = ET.fromstring(plot(found, 0.2))
    kinds = [one.get("class") for one in document.iter() if "L" in one.get("d", "")]
    assert sorted(filter(None, kinds)) == ["even"] * 2 + ["planned"] * 2 + ["whole"] * 2
