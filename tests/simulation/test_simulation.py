"""No schedule finds a difference, and every safeguard that is taken away is missed."""

import gc
import random

import pytest

from tests.simulation.__main__ import run_seeds
from tests.simulation.schedule import Schedule, played
from tests.simulation.variants import VARIANTS, Variant, first_caught
from tests.simulation.worker import SimWorker
from tests.simulation.world import World


def problems_from(seed: int, schedules: int) -> list[tuple[int, str]]:
    """Each with its seed, which plays the same schedule again."""
    return run_seeds(range(seed, seed + schedules)).problems


def test_no_schedule_finds_a_difference() -> None:
    assert problems_from(0, 2_000) == []


def test_no_schedule_of_a_new_seed_finds_a_difference() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    print(f"seed {seed}")
    assert problems_from(seed, 1_000) == []


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_no_schedule_of_many_finds_a_difference() -> None:
    assert problems_from(1_000_000, 100_000) == []


class ColumnarWorker(SimWorker):
    """Counts as workers do with large fetches."""

    def __init__(self, number: int, world: World, batch_records: int) -> None:
        super().__init__(number, world, batch_records)
        self.by_columns = True


def remembered(schedule: Schedule) -> dict[int, dict[bytes, bytes | None]]:
    """What the changelog holds after compaction; columns and rows write cells in other orders."""
    topic = schedule.world.changelog.partitions
    return {p: {key: value for _, key, value in records} for p, records in topic.items()}


def test_counting_by_columns_ends_in_the_same_cells_as_counting_by_rows() -> None:
    for seed in range(200):
        rows = Schedule(seed).run()
        columns = Schedule(seed, make_worker=ColumnarWorker).run()
        assert columns.problem is None, f"seed {seed}"
        assert columns.world.clickhouse.cells == rows.world.clickhouse.cells, f"seed {seed}"
        assert remembered(columns) == remembered(rows), f"seed {seed}"


def test_a_schedule_leaves_nothing_to_the_garbage_collector() -> None:
    for _ in played(range(50)):  # What is made once, and some of it thrown away, is made here.
        pass
    gc.collect()
    gc.disable()
    try:
        for seed in range(50):
            Schedule(seed).run()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_broken_variant_is_caught(variant: Variant) -> None:
    assert first_caught(variant, 5_000) is not None


def test_the_same_seed_plays_the_same_schedule() -> None:
    one, two = Schedule(42).run(), Schedule(42).run()
    assert one.faults == two.faults
    assert one.world.changelog.partitions == two.world.changelog.partitions


def test_an_offset_that_is_lost_or_goes_back_costs_nothing() -> None:
    lost = [schedule for schedule in played(range(0, 1_600, 4)) if schedule.offsets_lost]
    assert len(lost) > 20
    assert not any(schedule.refused or schedule.problem for schedule in lost)
