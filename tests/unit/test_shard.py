"""A shard: log time, slots, lateness and position, from columns alone."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.cells import SLOT_MS, CellKey, CellValues
from pipeline.shard import Rules, Shard

T0 = 1_760_000_000_000 - 1_760_000_000_000 % SLOT_MS
RULES = Rules(lateness_ms=86_400_000, earliness_ms=300_000)

Event = tuple[int, str, int, int]
"""Offset, counter, `at`, delta."""


def columns(*events: Event) -> pa.Table:
    offset, counter, at, delta = zip(*events, strict=True) if events else ([],) * 4
    return pa.table(
        {
            "counter": pa.array(counter, pa.string()),
            "region": pa.array([""] * len(counter), pa.string()),
            "at": pa.array(at, pa.int64()),
            "delta": pa.array(delta, pa.int64()),
            "offset": pa.array(offset, pa.int64()),
            "row": pa.array([0] * len(counter), pa.int32()),
        }
    )


def absorb(shard: Shard, log: dict[int, int], *events: Event) -> list[str]:
    """Absorb events; `log` has the timestamp of every record of the fetch, by offset."""
    misplaced = shard.absorb(
        columns(*events),
        np.array(list(log), np.int64),
        np.array(list(log.values()), np.int64),
        max(log) + 1,
    )
    return [f"{stray.offset}: {stray.reason}" for stray in misplaced]


def counted(shard: Shard) -> dict[tuple[int, str, int], tuple[int, int, int]]:
    """(slot, counter, window) -> (p, n, through), times counted from T0."""
    found = {}
    for slot_ms, cells in shard.slots.items():
        values = cells.values()
        for i, key in enumerate(map(CellKey.parse, values.keys)):
            place = (slot_ms - T0, key.counter, key.window_ms - T0)
            found[place] = (int(values.p[i]), int(values.n[i]), int(values.through[i]))
    return found


def test_windows_go_by_the_events_time_and_slots_by_the_logs() -> None:
    shard = Shard(0, rules=RULES)
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


def test_log_time_never_goes_back_even_if_the_log_does() -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, {0: T0 + SLOT_MS, 1: T0}, (1, "a:x", T0, 1))
    absorb(shard, {2: T0 + 5}, (2, "a:x", T0, 1))
    assert counted(shard) == {(SLOT_MS, "a:x", 0): (2, 0, 2)}
    assert shard.log_ms == T0 + SLOT_MS


def test_records_without_a_good_row_move_log_time_and_position_too() -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, {0: T0, 1: T0 + 2 * SLOT_MS})
    absorb(shard, {2: T0}, (2, "a:x", T0, 1))
    assert counted(shard) == {(2 * SLOT_MS, "a:x", 0): (1, 0, 2)}
    assert shard.position == 3


def test_too_late_and_too_early_are_refused_by_log_time_to_the_millisecond() -> None:
    shard = Shard(0, rules=RULES)
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


def test_the_result_does_not_depend_on_how_the_log_was_cut_into_fetches() -> None:
    rng = np.random.default_rng(7)
    log = {i: T0 + int(t) for i, t in enumerate(rng.integers(0, 4 * SLOT_MS, 400))}
    events = [
        (i, f"a:{rng.integers(5)}", log[i] - int(rng.integers(0, 2 * 86_400_000)), int(delta))
        for i, delta in enumerate(rng.choice([-2, -1, 1, 3], 400))
    ]
    whole = Shard(0, rules=RULES)
    absorb(whole, log, *events)
    for size in (1, 7, 100):
        cut = Shard(0, rules=RULES)
        for first in range(0, 400, size):
            part = range(first, min(first + size, 400))
            absorb(cut, {i: log[i] for i in part}, *(events[i] for i in part))
        assert counted(cut) == counted(whole)
        assert (cut.position, cut.log_ms) == (whole.position, whole.log_ms)


def test_recovered_cells_ahead_of_the_position_count_nothing_twice() -> None:
    shard = Shard(0, position=10, log_ms=T0, rules=RULES)
    ahead = CellValues([CellKey("a:x", "", T0).text()], *(np.array([v]) for v in (3, 0, 12)))
    shard.restore(T0, ahead)
    absorb(
        shard,
        dict.fromkeys(range(10, 15), T0),
        *((i, "a:x", T0, 1) for i in range(10, 15)),
        (14, "a:y", T0, 1),
    )
    assert counted(shard) == {(0, "a:x", 0): (5, 0, 14), (0, "a:y", 0): (1, 0, 14)}


def test_a_slot_is_let_go_only_when_it_is_over_and_clean() -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, {0: T0}, (0, "a:x", T0, 1))
    assert shard.close_slots(T0) == []
    absorb(shard, {1: T0 + SLOT_MS}, (1, "a:x", T0, 1))
    assert shard.close_slots(shard.log_ms) == []
    snapshot = shard.snapshot(checkpoint=True)
    snapshot.confirm("flush")
    assert shard.close_slots(shard.log_ms) == []
    snapshot.confirm("checkpoint")
    assert [cells.slot_ms for cells in shard.close_slots(shard.log_ms)] == [T0]
    assert shard.live_cells() == 1


def test_rules_are_the_shards_own() -> None:
    strict = Shard(0, rules=replace(RULES, lateness_ms=0))
    assert absorb(strict, {0: T0}, (0, "a:x", T0 - 1, 1)) != []
