"""Registers that rose are those of the set of members, however rows were cut."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from clickhouse_cityhash.cityhash import CityHash64

from pipeline import counter_numbers, distinct, known_registers
from pipeline.cell_groups import CellGroups
from pipeline.cells import CellKey
from pipeline.distinct import DAY_MS, RegistersOf, ShardDistinct
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.summaries import CellMembers

HOUR_MS = 3_600_000
T0 = 1_760_000_400_000 - 1_760_000_400_000 % DAY_MS
DAY = T0 // DAY_MS

NO_TRENDS = TrendRules(enabled=False)
RULES = CountingRules(
    1,
    FamilyRules(distinct_precision=4, distinct_grains=("1h", "1d"), trends=NO_TRENDS),
    {
        "fine": FamilyRules(distinct_precision=6, distinct_grains=("1m",), trends=NO_TRENDS),
        "off": FamilyRules(distinct_precision=0, trends=NO_TRENDS),
        "trend": FamilyRules(distinct_precision=0),
    },
)

COUNTERS = ("a:x", "a:y", "fine:ü", "off:z")

Row = tuple[str, str, int, str | None]
Registers = dict[tuple[str, str, int, int], dict[int, int]]
"""Registers by counter, region, window and precision."""


def truth(rows: list[Row]) -> Registers:
    """By the definition: the first bits choose a register, the zeros after them are its rank."""
    found: Registers = defaultdict(dict)
    for counter, region, at_ms, member in rows:
        family = counter.split(":")[0]
        bits, length_ms = (6, 60_000) if family == "fine" else (4, HOUR_MS)
        if member is None or family == "off":
            continue
        digits = f"{CityHash64(member.encode()):064b}"
        index = int(digits[:bits], 2)
        rank = len(digits[bits:]) - len(digits[bits:].lstrip("0")) + 1
        registers = found[counter, region, at_ms // length_ms * length_ms, bits]
        registers[index] = max(registers.get(index, 0), rank)
    return found


def members(rows: list[Row]) -> CellMembers:
    """The members of the rows in the cells of their minutes."""
    rows = [row for row in rows if row[3] is not None]
    keys = [
        CellKey(counter, region, at_ms // 60_000 * 60_000) for counter, region, at_ms, _ in rows
    ]
    texts = pa.array([member for *_, member in rows], pa.string())
    return CellMembers(CellGroups.of_keys(keys), np.arange(len(rows)), texts)


def nothing() -> Registers:
    return defaultdict(dict)


def taken(shard: ShardDistinct, into: Registers) -> list[RegistersOf]:
    """Write what waits, and merge it by max, as ClickHouse does."""
    snapshot = shard.snapshot()
    written = []
    for raised in snapshot.raised:
        for i, of in enumerate(raised.of):
            written.append(of)
            registers = into[of.counter, of.region, of.window_ms, of.precision]
            for at in range(raised.starts[i], raised.starts[i + 1]):
                index, rank = int(raised.indexes[at]), int(raised.ranks[at])
                registers[index] = max(registers.get(index, 0), rank)
    snapshot.confirm()
    return written


def some_rows(count: int, counters: Sequence[str] = COUNTERS) -> list[Row]:
    rng = np.random.default_rng(1)
    regions = ["", "eu", "日本"]
    return [
        (
            counters[int(rng.integers(len(counters)))],
            regions[rng.integers(3)],
            T0 + int(rng.integers(3 * HOUR_MS)),
            None if rng.integers(5) == 0 else f"member {rng.integers(300)}",
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_registers_are_those_of_the_set_of_members_however_rows_are_cut(cut: int) -> None:
    rows, shard, stored = some_rows(1000), ShardDistinct(), nothing()
    for start in range(0, len(rows), cut):
        shard.absorb(members(rows[start : start + cut]), T0, RULES)
        if start % 3 == 0:
            taken(shard, stored)
    taken(shard, stored)
    assert stored == truth(rows)
    assert len(stored) > 50


def test_only_registers_that_rose_since_are_written_and_those_not_confirmed_again() -> None:
    shard, stored = ShardDistinct(), nothing()
    shard.absorb(members([("a:x", "", T0, "ann")]), T0, RULES)
    shard.snapshot()  # Never confirmed: the write failed.
    assert taken(shard, stored) == [RegistersOf("a:x", "", T0, DAY, 4, ("1h", "1d"))]
    shard.absorb(members([("a:x", "", T0 + 5, "ann")]), T0, RULES)
    assert taken(shard, stored) == []


def test_what_rises_while_a_snapshot_is_written_is_written_by_the_next() -> None:
    shard, stored = ShardDistinct(), nothing()
    shard.absorb(members([("a:x", "", T0, "ann")]), T0, RULES)
    snapshot = shard.snapshot()
    shard.absorb(members([("a:x", "", T0, "bob"), ("a:y", "", T0, "bob")]), T0, RULES)
    snapshot.confirm()
    assert {of.counter for of in taken(shard, stored)} == {"a:x", "a:y"}


def registers_known(shard: ShardDistinct) -> int:
    return max(len(known._table) for known in shard._known.values())


def numbers_known(shard: ShardDistinct) -> int:
    assert shard._names is not None
    return len(shard._names._numbers)


class Bound(NamedTuple):
    """Where it is set, how much is kept of what, and by how much one fetch may pass it."""

    module: ModuleType
    name: str
    most: int
    size: Callable[[ShardDistinct], int]
    by_a_fetch: int


@pytest.mark.parametrize(
    "bound",
    [
        Bound(known_registers, "REGISTERS_MAX", 5, registers_known, 50),
        Bound(counter_numbers, "NUMBERS_MAX", 5, numbers_known, 50),
    ],
    ids=lambda bound: bound.name,
)
def test_what_is_known_is_forgotten_past_its_bound_and_costs_only_a_repeated_write(
    monkeypatch: pytest.MonkeyPatch, bound: Bound
) -> None:
    rows = some_rows(3000, [f"{name}{number}" for name in COUNTERS for number in range(30)])
    unbound = ShardDistinct()
    for start in range(0, 3000, 50):
        unbound.absorb(members(rows[start : start + 50]), T0, RULES)
    monkeypatch.setattr(bound.module, bound.name, bound.most)
    shard, stored = ShardDistinct(), nothing()
    for start in range(0, 3000, 50):
        shard.absorb(members(rows[start : start + 50]), T0, RULES)
        assert bound.size(shard) <= bound.most + bound.by_a_fetch < bound.size(unbound)
        assert all(known.waiting for known in shard._closed)
        if start % 100:
            taken(shard, stored)
    taken(shard, stored)
    assert stored == truth(rows)


def test_a_window_that_is_counted_on_two_days_of_log_time_is_written_under_both() -> None:
    shard, stored = ShardDistinct(), nothing()
    for slot_ms in (T0, T0 + DAY_MS):
        shard.absorb(members([("a:x", "", T0, "ann")]), slot_ms, RULES)
    assert [of.day for of in taken(shard, stored)] == [DAY, DAY + 1]


def test_trends_get_registers_of_the_minute_of_log_time_whenever_it_happened() -> None:
    shard, stored = ShardDistinct(), nothing()
    rows: list[Row] = [("trend:x", "eu", T0 - age_ms, "ann") for age_ms in (0, HOUR_MS)]
    shard.absorb(members(rows), T0, RULES)
    assert taken(shard, stored) == [
        RegistersOf("trend:x", "eu", T0, DAY, distinct.TREND_PRECISION, ("slot",))
    ]
