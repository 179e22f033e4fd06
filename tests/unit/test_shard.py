"""A shard: log time, slots, lateness and position, from columns alone."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from pipeline.cells import CellKey
from pipeline.changelog import checkpoint_records
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.shard import Fetched, Row, Shard
from pipeline.slots import SLOT_MS
from tests.kit.cells import cell_values

T0 = 1_760_000_000_000 - 1_760_000_000_000 % SLOT_MS

Event = tuple[int, str, int, int] | tuple[int, str, int, int, str | None]
"""Offset, counter, `at`, delta, and an id if it has one."""

RulesAt = tuple[tuple[int, CountingRules], ...]
Absorb = Callable[..., list[str]]


def fetched(log: dict[int, int], rules: RulesAt) -> Fetched:
    offsets, times = np.array(list(log), np.int64), np.array(list(log.values()), np.int64)
    return Fetched(offsets, times, max(log) + 1, rules)


def by_rows(shard: Shard, log: dict[int, int], *events: Event, rules: RulesAt = ()) -> list[str]:
    """Absorb events row by row; `log` has the timestamp of every record, by offset."""
    rows = [
        Row(offset, 0, counter, "", at, delta, rest[0] if rest else None)
        for offset, counter, at, delta, *rest in events
    ]
    found = shard.absorb_rows(rows, fetched(log, rules))
    return [f"{stray.offset}: {stray.reason}" for stray in found]


def by_columns(shard: Shard, log: dict[int, int], *events: Event, rules: RulesAt = ()) -> list[str]:
    """The same as columns."""
    size = len(events)
    columns = pa.table(
        {
            "counter": pa.array([event[1] for event in events], pa.string()),
            "region": pa.array([""] * size, pa.string()),
            "at": pa.array([event[2] for event in events], pa.int64()),
            "delta": pa.array([event[3] for event in events], pa.int64()),
            "id": pa.array([event[4] if len(event) > 4 else None for event in events], pa.string()),
            "offset": pa.array([event[0] for event in events], pa.int64()),
            "row": pa.array([0] * size, pa.int32()),
            "member": pa.nulls(size, pa.string()),
        }
    )
    found = shard.absorb_columns(columns, fetched(log, rules))
    return [f"{stray.offset}: {stray.reason}" for stray in found]


@pytest.fixture(params=[by_rows, by_columns])
def absorb(request: pytest.FixtureRequest) -> Absorb:
    """Both ways to count must do the same."""
    way: Absorb = request.param
    return way


def counted(shard: Shard) -> dict[tuple[int, str, int], tuple[int, int, int]]:
    """(slot, counter, window) -> (p, n, through), times counted from T0."""
    found = {}
    for slot_ms, cells in shard.slots.items():
        values = cells.values()
        for i, key in enumerate(map(CellKey.parse, values.keys)):
            place = (slot_ms - T0, key.counter, key.window_ms - T0)
            found[place] = (int(values.p[i]), int(values.n[i]), int(values.through[i]))
    return found


def duplicates(shard: Shard) -> int:
    return sum(int(cells.values().duplicates.sum()) for cells in shard.slots.values())


def test_windows_go_by_the_events_time_and_slots_by_the_logs(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(
        shard,
        {0: T0 + 1, 1: T0 + 2, 2: T0 + SLOT_MS},
        (0, "a:x", T0 + 61_000, 1),
        (1, "a:x", T0 - 59_000, 2),
        (2, "a:x", T0 + 61_000, 4),
    )
    assert counted(shard) == {
        (0, "a:x", 60_000): (1, 0, 0),
        (0, "a:x", -60_000): (2, 0, 1),
        (SLOT_MS, "a:x", 60_000): (4, 0, 2),
    }


def test_log_time_never_goes_back_even_if_the_log_does(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0 + SLOT_MS, 1: T0}, (1, "a:x", T0, 1))
    absorb(shard, {2: T0 + 5}, (2, "a:x", T0, 1))
    assert counted(shard) == {(SLOT_MS, "a:x", 0): (2, 0, 2)}
    assert shard.log_ms == T0 + SLOT_MS


def test_records_without_a_good_row_move_log_time_and_position_too(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0, 1: T0 + 2 * SLOT_MS})
    absorb(shard, {2: T0}, (2, "a:x", T0, 1))
    assert counted(shard) == {(2 * SLOT_MS, "a:x", 0): (1, 0, 2)}
    assert shard.position == 3


def test_too_late_and_too_early_are_refused_by_log_time_to_the_millisecond(absorb: Absorb) -> None:
    shard = Shard(0)
    log = dict.fromkeys(range(4), T0)
    refused = absorb(
        shard,
        log,
        (0, "a:late", T0 - 86_400_000, 1),
        (1, "a:late", T0 - 86_400_001, 1),
        (2, "a:early", T0 + 300_000, 1),
        (3, "a:early", T0 + 300_001, 1),
    )
    assert refused == [
        "1: at: more than 86400 s before log time, too late",
        "3: at: more than 300 s ahead of log time",
    ]
    assert [key[1] for key in counted(shard)] == ["a:late", "a:early"]


def test_the_result_does_not_depend_on_how_the_log_was_cut_into_fetches(absorb: Absorb) -> None:
    rng = np.random.default_rng(7)
    log = {i: T0 + int(t) for i, t in enumerate(rng.integers(0, 4 * SLOT_MS, 400))}
    events = [
        (i, f"a:{rng.integers(5)}", log[i] - int(rng.integers(0, 2 * 86_400_000)), int(delta))
        for i, delta in enumerate(rng.choice([-2, -1, 1, 3], 400))
    ]
    whole = Shard(0)
    absorb(whole, log, *events)
    for size in (1, 7, 100):
        cut = Shard(0)
        for first in range(0, 400, size):
            part = range(first, min(first + size, 400))
            absorb(cut, {i: log[i] for i in part}, *(events[i] for i in part))
        assert counted(cut) == counted(whole)
        assert (cut.position, cut.log_ms) == (whole.position, whole.log_ms)


def test_recovered_cells_ahead_of_the_position_count_nothing_twice(absorb: Absorb) -> None:
    shard = Shard(0, position=10, log_ms=T0)
    shard.restore(T0, cell_values(CellKey("a:x", "", T0).text(), 3, 0, 12, first=10))
    absorb(
        shard,
        dict.fromkeys(range(10, 15), T0),
        *((i, "a:x", T0, 1) for i in range(10, 15)),
        (14, "a:y", T0, 1),
    )
    assert counted(shard) == {(0, "a:x", 0): (5, 0, 14), (0, "a:y", 0): (1, 0, 14)}


def test_a_slot_is_let_go_only_when_it_is_over_and_clean(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0}, (0, "a:x", T0, 1))
    assert shard.close_slots(T0) == ([], [])
    absorb(shard, {1: T0 + SLOT_MS}, (1, "a:x", T0, 1))
    assert shard.close_slots(shard.log_ms) == ([], [])
    snapshot = shard.snapshot(checkpoint=True)
    snapshot.confirm("flush")
    assert shard.close_slots(shard.log_ms) == ([], [])
    snapshot.confirm("checkpoint")
    assert [cells.slot_ms for cells in shard.close_slots(shard.log_ms)[0]] == [T0]
    assert shard.live_cells() == 1


def test_cells_of_a_slot_that_is_over_are_not_written_down_any_more(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0}, (0, "a:x", T0, 1))
    first = shard.snapshot(checkpoint=True)
    assert len(list(checkpoint_records(first, 1))) == 2, "the cell and the position"
    first.confirm("checkpoint")
    absorb(shard, {1: T0}, (1, "a:x", T0, 1), (1, "a:y", T0, 1))
    absorb(shard, {2: T0 + SLOT_MS}, (2, "a:z", T0, 1))
    later = [key for key, _ in checkpoint_records(shard.snapshot(checkpoint=True), 1)]
    assert len(later) == 2, "the open slot's cell and the position"
    assert b"a:z" in later[0]
    [over] = shard.over(shard.log_ms)
    assert [CellKey.parse(key).counter for key in over.checkpointed_keys()] == ["a:x"]


def rules(version: int, lateness_ms: int = 86_400_000, **families: FamilyRules) -> CountingRules:
    return CountingRules(version, FamilyRules(lateness_ms), families)


def test_rules_hold_from_their_offset_on_and_the_greater_version_wins(absorb: Absorb) -> None:
    shard = Shard(0)
    old = T0 - 120_000
    refused = absorb(
        shard,
        dict.fromkeys(range(8), T0),
        *((offset, "a:x", old, 1) for offset in (0, 2, 4, 6)),
        rules=((1, rules(5, 60_000)), (3, rules(4)), (5, rules(6))),
    )
    assert [reason.partition(":")[0] for reason in refused] == ["2", "4"]
    assert shard.rules.version == 6


def test_a_rules_record_after_the_last_row_holds_for_the_next_fetch(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0, 1: T0}, (0, "a:x", T0, 1), rules=((1, rules(1, 60_000)),))
    assert absorb(shard, {2: T0}, (2, "a:x", T0 - 60_001, 1)) != []


def test_each_family_has_its_own_lateness_and_may_have_no_regions(absorb: Absorb) -> None:
    shard = Shard(0, rules=rules(1, strict=FamilyRules(1_000), flat=FamilyRules(regions=False)))
    refused = absorb(
        shard,
        dict.fromkeys(range(3), T0),
        (0, "strict:x", T0 - 1_001, 1),
        (1, "flat:x", T0 - 1_001, 1),
        (2, "strict:x", T0 - 1_000, 1),
    )
    assert refused == ["0: at: more than 1 s before log time, too late"]
    assert sorted(key[1] for key in counted(shard)) == ["flat:x", "strict:x"]


def test_increments_of_a_strict_family_are_refused_from_its_rules_on(absorb: Absorb) -> None:
    strict = rules(2, stock=FamilyRules(strict=StrictRules()))
    shard = Shard(0, rules=rules(1))
    refused = absorb(
        shard,
        dict.fromkeys(range(5), T0),
        (0, "stock:x", T0, 1),
        (2, "stock:x", T0, 1, "id"),
        (3, "a:x", T0, 1),
        (4, "stock:late", T0 - 86_400_001, 1),
        rules=[(1, strict)],
    )
    reason = "counter: its family is strict; commands go to POST .../increment, /decrement and "
    assert refused == [f"2: {reason}/acquire", f"4: {reason}/acquire"]
    assert sorted(key[1] for key in counted(shard)) == ["a:x", "stock:x"]
    assert not list(shard.ids)


def test_an_id_is_counted_once_within_its_horizon_even_if_it_was_a_duplicate_itself(
    absorb: Absorb,
) -> None:
    shard = Shard(0, rules=CountingRules(default=FamilyRules(ids_horizon_ms=1_000)))
    log = {0: T0, 1: T0 + 900, 2: T0 + 1_800, 3: T0 + 2_801, 4: T0 + 2_801}
    absorb(shard, log, *((i, "a:x", T0, 1, "same") for i in range(4)), (4, "b:x", T0, 1, "same"))
    assert counted(shard) == {(0, "a:x", 0): (2, 0, 3), (0, "b:x", 0): (1, 0, 4)}
    assert duplicates(shard) == 2


def test_a_refused_row_does_not_claim_its_id(absorb: Absorb) -> None:
    shard = Shard(0)
    log = dict.fromkeys(range(2), T0)
    absorb(shard, log, (0, "a:x", T0 - 86_400_001, 1, "same"), (1, "a:x", T0, 1, "same"))
    assert counted(shard) == {(0, "a:x", 0): (1, 0, 1)}


def test_the_number_limit_is_the_last_n_occurrences_in_log_order(absorb: Absorb) -> None:
    shard = Shard(0, rules=CountingRules(ids_limit=2))
    ids = ["a", "b", "a", "c", "a", "d", "e", "a"]
    log = dict.fromkeys(range(len(ids)), T0)
    absorb(shard, log, *((i, "a:x", T0, 1, id_) for i, id_ in enumerate(ids)))
    assert duplicates(shard) == 2
    assert len(shard.ids) == 3


def test_a_frame_is_counted_whole_and_guarded_whole(absorb: Absorb) -> None:
    shard = Shard(0)
    absorb(shard, {0: T0}, *((0, "a:x", T0, 1) for _ in range(5)))
    assert counted(shard) == {(0, "a:x", 0): (5, 0, 0)}
    again = Shard(0)
    again.restore(T0, shard.slots[T0].values())
    absorb(again, {0: T0}, *((0, "a:x", T0, 1) for _ in range(5)))
    assert counted(again) == counted(shard)


def test_a_row_that_would_overflow_its_cell_is_refused_in_log_order(absorb: Absorb) -> None:
    shard = Shard(0)
    shard.restore(T0, cell_values(CellKey("a:x", "", T0).text(), 2**63 - 11, 0, 1))
    refused = absorb(
        shard,
        dict.fromkeys(range(2, 8), T0),
        (2, "a:x", T0, 6),
        (3, "a:x", T0, 5),
        (4, "a:x", T0, -(2**40)),
        (5, "a:x", T0, 4),
        (6, "a:x", T0, 1),
        (7, "a:y", T0, 1),
    )
    assert refused == [f"{n}: delta: the counter's cell would overflow" for n in (3, 6)]
    assert counted(shard) == {
        (0, "a:x", 0): (2**63 - 1, 2**40, 5),
        (0, "a:y", 0): (1, 0, 7),
    }
