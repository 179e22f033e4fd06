"""No schedule finds a difference, and every safeguard that is taken away is missed."""

import gc
import random
import struct
from collections import Counter
from hashlib import blake2b
from typing import Any

import msgspec
import pytest

from tests.simulation.__main__ import run_seeds
from tests.simulation.schedule import Schedule, played
from tests.simulation.truth import SLOT_MS, Partition, RecordTruth
from tests.simulation.variants import VARIANTS, Variant, first_caught
from tests.simulation.worker import SimWorker
from tests.simulation.world import World

pytestmark = pytest.mark.timeout(600)


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


def kept_in_changelog(schedule: Schedule, partition: int) -> Counter[tuple[Any, ...]]:
    """What is left of a partition's changelog after compaction, without cells' values."""
    schedule.world.changelog.compact(partition, drop_tombstones=True)
    kept: Counter[tuple[Any, ...]] = Counter()
    for _, key, value in schedule.world.changelog.partitions[partition]:
        _, kind, *rest = msgspec.msgpack.decode(key)
        if kind == "id":
            kept["id", rest[-1], msgspec.msgpack.decode(value or b"")[0]] += 1
        elif kind == "refused":
            kept["refused", *rest[1:]] += 1
        elif kind == "cell":
            kept["cell", rest[1]] += 1
        elif kind == "sketch":
            _, slot, group, region, window, *_ = rest
            kept["sketch", group, region, window or 0, slot] += 1
        elif kind == "position":
            kept["position", rest[0]] += 1
    return kept


def newest_facts(schedule: Schedule, partition: int) -> dict[bytes, tuple[int, bool]]:
    """By counter and member: where the changelog says that one came or went last."""
    found: dict[bytes, tuple[int, bool]] = {}
    for _, key, value in schedule.world.changelog.partitions[partition]:
        if msgspec.msgpack.decode(key)[1] == "members":
            for high, low, at in struct.iter_unpack("<QQq", value or b""):
                pair = struct.pack(">QQ", high, low)
                found[pair] = max(found.get(pair, (-1, False)), (at // 2, at % 2 == 1))
    return found


def facts_of(schedule: Schedule, partition: int) -> dict[bytes, tuple[int, bool]]:
    """The same by the truth."""
    flipped = Partition(partition, schedule.world.log.partitions[partition]).flipped
    return {
        blake2b("\0".join(pair).encode(), digest_size=16).digest(): fact
        for pair, fact in flipped.items()
    }


def needed_in_changelog(schedule: Schedule, number: int) -> Counter[tuple[Any, ...]]:
    """What the next owner of a partition needs, by the truth."""
    records = schedule.world.log.partitions[number]
    truth = Partition(number, records)
    open_slot = truth.log_ms // SLOT_MS * SLOT_MS
    return Counter(
        [
            ("position", len(records)),
            *(("cell", place[-1]) for place in truth.cells if place[-1] == open_slot),
            *(
                ("sketch", *place[1:])
                for place in truth.spilled
                if place[-1] == open_slot and schedule.summarises
            ),
            *(("id", f"{counter}\0{id_}", at_ms) for counter, id_, at_ms in truth.occurrences),
            *(("refused", *place, -1) for place in truth.refused),
            *(("refused", *place, at) for place, at in truth.retried_by.items()),
        ]
    )


def test_after_an_owners_first_commit_the_changelog_holds_what_is_needed_and_no_more() -> None:
    """Whatever tombstones were lost, and whatever zombies wrote."""
    for schedule in played(range(300)):  # Lost tombstones matter in five of them.
        if schedule.refused:
            continue
        worker = schedule.workers[-1]
        for partition, records in enumerate(schedule.world.log.partitions):
            records.append(RecordTruth(schedule.world.now_ms))  # A heartbeat: there is a commit.
            worker.fetch(partition, 1)
        worker.start(worker.checkpointer.checkpoint())
        schedule.finish(worker)
        for partition in range(len(schedule.world.log.partitions)):
            kept = kept_in_changelog(schedule, partition)
            assert kept == needed_in_changelog(schedule, partition), f"seed {schedule.seed}"
            facts = newest_facts(schedule, partition)
            assert facts == facts_of(schedule, partition), f"seed {schedule.seed}"


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
