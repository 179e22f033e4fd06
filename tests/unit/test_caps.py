"""A family may open so many cells in a slot; the rest of it goes to one cell per window."""

from collections.abc import Callable

import pytest

from pipeline.cells import CellKey
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Shard
from pipeline.slots import SLOT_MS
from tests.kit.cells import cell_values
from tests.unit.test_shard import T0, Absorb, by_columns, by_rows, counted

Cells = Callable[[Shard], dict[str, int]]


@pytest.fixture(params=[by_rows, by_columns])
def absorb(request: pytest.FixtureRequest) -> Absorb:
    way: Absorb = request.param
    return way


def rules(cells_max: int, version: int = 1, **named: int) -> CountingRules:
    families = {name: FamilyRules(cells_max=most) for name, most in named.items()}
    return CountingRules(version, FamilyRules(cells_max=cells_max), families)


def sums(shard: Shard) -> dict[str, int]:
    """What was added to each counter, over all windows and slots."""
    found: dict[str, int] = {}
    for (_, counter, _), (p, n, _) in counted(shard).items():
        found[counter] = found.get(counter, 0) + p - n
    return found


def test_past_its_cap_a_family_opens_no_cell_and_nothing_is_lost(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(100, flood=2))
    names = ("flood:a", "flood:b", "flood:c", "flood:a", "calm:x", "flood:d", "calm:y")
    absorb(shard, dict.fromkeys(range(7), T0), *((i, name, T0, 1) for i, name in enumerate(names)))
    assert sums(shard) == {"flood:a": 2, "flood:b": 1, "flood:": 2, "calm:x": 1, "calm:y": 1}


def test_families_that_no_rule_names_share_one_cap(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(2, named=5))
    names = ("a:x", "b:x", "c:x", "d:x", "named:x")
    absorb(shard, dict.fromkeys(range(5), T0), *((i, name, T0, 1) for i, name in enumerate(names)))
    assert sums(shard) == {"a:x": 1, "b:x": 1, ":": 2, "named:x": 1}


def test_the_rest_is_one_cell_per_window_whatever_the_regions(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(1))
    absorb(
        shard,
        dict.fromkeys(range(4), T0),
        *((i, f"a:{i}", T0 - (i % 2) * 60_000, 1) for i in range(4)),
    )
    assert sums(shard) == {"a:0": 1, ":": 3}
    assert len(counted(shard)) == 3


def test_a_new_slot_has_room_again(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(1))
    absorb(shard, {0: T0, 1: T0}, (0, "a:x", T0, 1), (1, "a:y", T0, 1))
    absorb(shard, {2: T0 + SLOT_MS}, (2, "a:y", T0, 1))
    assert sums(shard) == {"a:x": 1, ":": 1, "a:y": 1}


def test_a_removal_that_finds_no_cell_is_taken_from_the_rest(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(1))
    absorb(shard, {0: T0, 1: T0}, (0, "a:x", T0, 1), (1, "a:y", T0, -3))
    assert sums(shard) == {"a:x": 1, ":": -3}


def test_recovered_cells_that_were_opened_later_do_not_take_a_place_before_their_time(
    absorb: Absorb,
) -> None:
    shard = Shard(0, position=10, log_ms=T0, rules=rules(1))
    later = CellKey("a:later", "", T0).text()
    shard.restore(T0, cell_values(later, 1, 0, 12, first=12))
    absorb(
        shard,
        dict.fromkeys(range(10, 13), T0),
        (10, "a:now", T0, 1),
        (12, "a:later", T0, 1),
        rules=((11, rules(2, version=2)),),
    )
    assert sums(shard) == {"a:now": 1, "a:later": 1}


def test_naming_a_family_gives_it_a_cap_of_its_own(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(2))
    absorb(shard, {0: T0, 1: T0}, (0, "a:x", T0, 1), (1, "b:x", T0, 1))
    absorb(
        shard,
        dict.fromkeys(range(2, 6), T0),
        *((i, name, T0, 1) for i, name in ((3, "b:y"), (4, "b:z"), (5, "a:y"))),
        rules=((2, rules(2, version=2, b=2)),),
    )
    assert sums(shard) == {"a:x": 1, "b:x": 1, "b:y": 1, "b:": 1, "a:y": 1}
