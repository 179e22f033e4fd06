"""The arithmetic of docs/scale.md, against sums by hand."""

import math
from dataclasses import astuple, replace
from itertools import pairwise

import msgspec
import pytest

from benchmarks import _scale_page as page
from benchmarks._pages import between, written
from benchmarks._scale_cells import Load
from benchmarks._scale_inputs import Inputs, load_inputs
from benchmarks._scale_model import broker_costs, cells_disk_tib, need
from benchmarks._scale_steps import steps
from benchmarks.scale import PAGE

NEVER_SPLIT = 1e12


def inputs_with(**values: float) -> Inputs:
    """Those of the file, but for some."""
    inputs = load_inputs()
    names = {*inputs.measured.__struct_fields__, *inputs.assumed.__struct_fields__}
    assert values.keys() <= names
    parts = {}
    for kind in ("measured", "assumed"):
        part = getattr(inputs, kind)
        changed = {
            name: msgspec.structs.replace(getattr(part, name), value=value)
            for name, value in values.items()
            if name in part.__struct_fields__
        }
        parts[kind] = msgspec.structs.replace(part, **changed)
    return Inputs(**parts)


def touched_by_hand(rate: float, counters: int, exponent: float, regions: int, s: float) -> float:
    weights = [rank**-exponent for rank in range(1, counters + 1)]
    each = rate / math.fsum(weights) / regions
    rates = [each * weight for weight in weights]
    return regions * math.fsum(1 - math.exp(-one * s) for one in rates)


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_cells_touched_are_those_summed_counter_by_counter(exponent: float, seconds: float) -> None:
    load = Load(20_000, 200_000, exponent, 3, NEVER_SPLIT)
    by_hand = touched_by_hand(20_000, 200_000, exponent, 3, seconds)
    assert load.touched(seconds) == pytest.approx(by_hand, rel=1e-3)


def test_few_counters_are_all_touched_and_never_more() -> None:
    load = Load(1e6, 50, 1.0, 4, NEVER_SPLIT)
    assert load.touched(3600) == pytest.approx(200)


def test_a_split_counter_has_as_many_cells_as_shards() -> None:
    whole = Load(1e6, 1, 1.0, 2, NEVER_SPLIT)
    # A million a second, 10,000 for a shard and half of it after a split: 256 is the least.
    split = replace(whole, shard_rate_max=10_000.0)
    assert whole.touched(1) == pytest.approx(2)
    assert split.touched(1) == pytest.approx(512)


def test_brokers_cost_by_record_and_by_byte() -> None:
    inputs = inputs_with(
        broker_produce_100=1.2, broker_produce_1000=3.0, broker_consume_100=0.4,
        broker_consume_1000=0.4,
    )  # fmt: skip
    # 900 bytes more cost 1.8 s a million: 2 s a GB, so 0.2 of the 1.2 are of the 100 bytes.
    assert broker_costs(inputs) == pytest.approx((1.0, 2.0, 0.4, 0.0))


def test_workers_partitions_and_brokers_by_hand() -> None:
    inputs = inputs_with(
        worker_json=3.9, flush_worker_members=1e-9, skew=1.5, utilisation=0.5,
        broker_produce_100=1.0, broker_produce_1000=1.0, broker_consume_100=0.5,
        broker_consume_1000=0.5, replication=3, broker_cores=4, broker_network=1e9,
        broker_replicas=1e9, log_bytes_json=100, log_days=1,
    )  # fmt: skip
    found = need(inputs, 2e6, "json")
    assert found.worker_busy == pytest.approx(7.8)
    assert found.workers.machines == 24  # of 23.4
    assert found.partitions == 64
    assert found.broker_busy == pytest.approx(2 * (3 * 1.0 + 0.5))
    assert found.brokers.machines == 4  # 14 cores of 4 each
    assert found.brokers.disk_tib == pytest.approx(2e6 * 100 * 86_400 * 3 / 2**40)


@pytest.mark.parametrize(
    ("limit", "brokers"),
    [
        ({"broker_network": 10}, 1_200),  # 1,000 MB/s six times over, at half of 10 MB/s
        ({"broker_replicas": 2}, 768),  # 512 partitions, three of each, two on a broker
        ({}, 3),
    ],
)
def test_brokers_are_as_many_as_the_scarcest_needs(limit: dict[str, float], brokers: int) -> None:
    roomy = {"broker_cores": 1e9, "broker_network": 1e9, "broker_replicas": 1e9}
    inputs = inputs_with(
        worker_json=10.0, flush_worker_members=1e-9, skew=1.0, utilisation=0.5, replication=3,
        log_bytes_json=100, **(roomy | limit),
    )  # fmt: skip
    found = need(inputs, 1e7, "json")
    assert (found.partitions, found.brokers.machines) == (512, brokers)


def test_clickhouse_by_hand() -> None:
    inputs = inputs_with(
        worker_combined=0.99, flush_worker_cells=1e-9, skew=1.0, utilisation=0.5, flush_cells=5.0,
        flush_fixed=100.0, rollup=6.0, rollup_passes=2, clickhouse_copies=2, clickhouse_cores=16,
        clickhouse_flushes=1e9, counters_per_rate=10, exponent=1.0, regions=1,
    )  # fmt: skip
    found = need(inputs, 1e6, "combined")
    load = Load(1e6, 10_000_000, 1.0, 1, 10_000.0)
    flush = load.touched(1) / 1e6 * 5.0 + 2 * 0.1
    rollup = load.touched(60) / 60 / 1e6 * 6.0 * 2
    assert found.clickhouse_flush_busy == pytest.approx(flush)
    assert found.clickhouse_rollup_busy == pytest.approx(rollup)
    assert found.clickhouse.cores == pytest.approx(2 * (flush + rollup) / 0.5)
    assert found.clusters == math.ceil((flush + rollup) / 0.5 / 16)
    assert found.clickhouse.disk_tib == pytest.approx(2 * cells_disk_tib(inputs, load))


def test_the_disk_of_cells_by_hand() -> None:
    inputs = inputs_with(
        cell_bytes_1m=20, cell_bytes_1h=10, minute_days=7, hour_days=90, day_days=365
    )
    load = Load(1e6, 100, 0.5, 1, NEVER_SPLIT)  # all of the hundred in every second
    expected = 100 * (1440 * 7 * 20 + 24 * 90 * 10 + 365 * 10) / 2**40
    assert cells_disk_tib(inputs, load) == pytest.approx(expected)


def test_many_small_flushes_need_more_clusters_than_their_cores() -> None:
    inputs = inputs_with(clickhouse_flushes=1, clickhouse_cores=1e9)
    found = need(inputs, 1e6, "json")
    assert found.clusters == found.workers.machines > 1


def test_the_price_is_cores_memory_and_disk() -> None:
    inputs = inputs_with(core_price=10, gib_price=2, tib_price=50)
    found = need(inputs, 1e5, "frames")
    for tier in found.tiers:
        _, cores, memory_gib, disk_tib, price = astuple(tier)
        assert price == pytest.approx(10 * cores + 2 * memory_gib + 50 * disk_tib)
    assert found.price == pytest.approx(sum(tier.price for tier in found.tiers))


def test_the_smallest_load_needs_one_of_each_and_three_brokers() -> None:
    found = need(load_inputs(), 1, "json")
    machines = [tier.machines for tier in (found.workers, found.brokers, found.web)]
    assert (machines, found.partitions, found.clusters) == ([1, 3, 1], 8, 1)


def test_ten_times_the_rate_needs_more_of_everything() -> None:
    for sending in ("json", "frames", "combined"):
        needs = [need(load_inputs(), rate, sending) for rate in page.RATES]
        for less, more in pairwise(needs):
            assert more.price > less.price
            assert all(
                a.machines >= b.machines for a, b in zip(more.tiers, less.tiers, strict=True)
            )


def test_the_steps_have_every_number_filled_in() -> None:
    inputs = load_inputs()
    told = steps(inputs, need(inputs, 1e6, "json"))
    assert "{" not in told
    assert "nan" not in told
    assert told.startswith("1. **Cells.** ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00678, "0.0068"), (4.05, "4"), (92.04, "92"), (316.4, "316"), (45_123, "45,100")],
)
def test_figures_have_few_digits(value: float, text: str) -> None:
    assert page.figure(value) == text


def test_rates_are_written_as_powers_of_ten() -> None:
    assert [page.power(rate) for rate in (1e3, 1e8, 250_000)] == ["10^3", "10^8", "250,000"]


def test_the_page_is_what_the_command_makes_of_the_inputs() -> None:
    found = between(PAGE.read_text(), page.BEGIN, page.END)
    assert found == page.section(load_inputs()), "run python -m benchmarks.scale --write"


def test_only_what_is_between_the_markers_is_written() -> None:
    assert written("a\n<x>old</x>\nb", "<x>", "</x>", "new") == "a\n<x>\n\nnew\n\n</x>\nb"
    assert between(written("<x></x>", "<x>", "</x>", "new"), "<x>", "</x>") == "new"
    with pytest.raises(ValueError, match="needs the lines"):
        written("no markers", "<x>", "</x>", "new")
