"""Sketches of a slot: what spilled, counter by counter, the same whoever counts it."""

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from pipeline import sketched
from pipeline.rules import CountingRules, FamilyRules
from pipeline.sketched import ALL_REGIONS, FULL, SketchOf, SlotSketches
from sketches.frequency import Frequency
from sketches.heavy import Heavy

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SLOT = 1_760_054_400_000 + 40 * MINUTE_MS
assert SLOT % HOUR_MS == 40 * MINUTE_MS

RULES = CountingRules(1, families={"tag": FamilyRules(sketch_error=0.01, sketch_keys=20)})

Row = tuple[str, str, int, int, int]
"""Counter, region, at, delta, offset."""


def table(rows: list[Row]) -> pa.Table:
    counter, region, at, delta, offset = zip(*rows, strict=True)
    deltas = np.array(delta, np.int64)
    return pa.table(
        {
            "counter": pa.array(counter, pa.string()),
            "region": pa.array(region, pa.string()),
            "at": pa.array(at, pa.int64()),
            "p": np.maximum(deltas, 0),
            "n": np.maximum(-deltas, 0),
            "offset": pa.array(offset, pa.int64()),
        }
    )


def some_rows(count: int = 3_000) -> list[Row]:
    rng = np.random.default_rng(5)
    return [
        (
            f"{'tag' if rng.integers(4) else 'other'}:#{rng.zipf(1.3) % 500}",
            ("", "eu", "日本")[rng.integers(3)],
            SLOT + int(rng.integers(-2, 1)) * MINUTE_MS + int(rng.integers(MINUTE_MS)),
            int(rng.choice([1, 1, 1, 5, -1])),
            number // 3,
        )
        for number in range(count)
    ]


def absorbed(rows: list[Row], cuts: list[int]) -> SlotSketches:
    """Cut between offsets only, as fetches are."""
    found = SlotSketches(SLOT)
    for change, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True), 1):
        if start < end:
            found.absorb(table(rows[start:end]), change, RULES)
    return found


def counted(sketches: SlotSketches) -> dict[SketchOf, object]:
    return {
        of: ([table.tolist() for table in one.counters()], one.through)
        if isinstance(one, Frequency)
        else (one.top(100), one.added, one.through)
        for of, one in sketches.states().items()
    }


def group_of(counter: str) -> str:
    return "tag" if counter.startswith("tag:") else ""


def test_every_region_and_window_has_a_count_min_that_is_never_below_the_truth() -> None:
    rows = some_rows()
    truth: dict[SketchOf, Counter[tuple[str, bool]]] = defaultdict(Counter)
    for counter, region, at_ms, delta, _ in rows:
        key = SketchOf(group_of(counter), region, at_ms - at_ms % MINUTE_MS)
        truth[key][counter, delta > 0] += abs(delta)
    states = absorbed(rows, []).states()
    found = {of: one for of, one in states.items() if isinstance(one, Frequency)}
    assert set(found) == set(truth)
    for of, one in found.items():
        added = {name: n for (name, is_added), n in truth[of].items() if is_added}
        assert one.added == sum(added.values())
        for name, amount in added.items():
            removed = truth[of][name, False]
            assert one.estimate(name).high >= amount - removed


def test_the_heaviest_are_known_in_each_region_and_in_all_of_them() -> None:
    rows = some_rows()
    states = absorbed(rows, []).states()
    for region in ("", "eu", "日本", ALL_REGIONS):
        one = states[SketchOf("tag", region)]
        assert isinstance(one, Heavy)
        truth: Counter[str] = Counter()
        for counter, at, _, delta, _ in rows:
            if group_of(counter) == "tag" and region in {at, ALL_REGIONS}:
                truth[counter] += max(delta, 0)
        assert one.added == truth.total()
        names, counts = one.heaviest(3)
        assert names == [name for name, _ in truth.most_common(3)]
        assert counts == [amount for _, amount in truth.most_common(3)]


@pytest.mark.parametrize("cuts", [[3], [300, 303, 2_400], list(range(30, 3_000, 30))])
def test_the_state_does_not_depend_on_how_the_log_was_cut(cuts: list[int]) -> None:
    rows = some_rows()
    assert counted(absorbed(rows, cuts)) == counted(absorbed(rows, []))


def test_a_recovered_sketch_that_is_ahead_counts_nothing_twice() -> None:
    rows = some_rows()
    ahead = absorbed(rows[:1_800], [])
    recovered = SlotSketches(SLOT)
    for value in ahead.snapshot("checkpoint").values:
        recovered.restore(value, change=1, position=200)
    recovered.absorb(table(rows[600:]), 2, RULES)
    assert counted(recovered) == counted(absorbed(rows, []))
    assert not recovered.is_clean()


def test_of_two_recovered_states_the_one_that_counted_further_wins() -> None:
    rows = some_rows()
    values = [
        value
        for end in (600, 1_800, 900)
        for value in absorbed(rows[:end], []).snapshot("checkpoint").values
    ]
    recovered = SlotSketches(SLOT)
    for value in values:
        recovered.restore(value, change=1, position=10)
    assert counted(recovered) == counted(absorbed(rows[:1_800], []))


def test_only_buckets_that_grew_since_the_last_confirmed_flush_are_written() -> None:
    rows, sketches = some_rows(), SlotSketches(SLOT)
    stored: dict[tuple[SketchOf, int], tuple[int, int]] = {}
    sizes = []
    for change, start in enumerate(range(0, 3_000, 300), 1):
        sketches.absorb(table(rows[start : start + 300]), change, RULES)
        snapshot = sketches.snapshot("flush")
        if change % 3 == 0:
            continue  # Never confirmed: the write failed.
        for part in snapshot.buckets:
            for place in zip(part.buckets, part.p, part.n, strict=True):
                bucket, p, n = map(int, place)
                stored[part.of, bucket] = (p, n)
        sizes.append(sum(len(part.buckets) for part in snapshot.buckets))
        snapshot.confirm()
        assert sketches.snapshot("flush").changes == {}
    whole = {
        (of, bucket): (int(added), int(removed))
        for of, one in sketches.states().items()
        if isinstance(one, Frequency)
        for tables in [[table.ravel() for table in one.counters()]]
        for bucket, (added, removed) in enumerate(zip(*tables, strict=True))
        if added or removed
    }
    assert stored == whole
    assert max(sizes) < len(whole)


def test_late_rows_are_counted_in_their_hour_and_very_late_ones_in_their_day() -> None:
    ages_ms = [0, 10 * MINUTE_MS, 11 * MINUTE_MS, 2 * DAY_MS, 3 * DAY_MS, -4 * MINUTE_MS]
    rows = [("tag:a", "", SLOT - age_ms, 1, number) for number, age_ms in enumerate(ages_ms)]
    windows = {of.window_ms for of in absorbed(rows, []).states() if of.window_ms is not None}
    assert windows == {
        SLOT,
        SLOT - 10 * MINUTE_MS,
        (SLOT - 11 * MINUTE_MS) // HOUR_MS * HOUR_MS,
        (SLOT - 2 * DAY_MS) // HOUR_MS * HOUR_MS,
        (SLOT - 3 * DAY_MS) // DAY_MS * DAY_MS,
        SLOT + 4 * MINUTE_MS,
    }


def test_regions_past_their_bound_share_the_sketches_of_the_unknown_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sketched, "REGIONS_MAX", 2)
    rows = [("tag:a", name, SLOT, 1, i) for i, name in enumerate(["x", "y", "z", "", "x", "z"])]
    for cuts in ([], [2, 4]):
        states = absorbed(rows, cuts).states()
        added = {of.region: one.added for of, one in states.items() if of.window_ms is not None}
        assert added == {"x": 2, "y": 1, "": 3}


def test_a_region_that_an_earlier_owner_opened_later_takes_no_place_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sketched, "REGIONS_MAX", 2)
    rows = [("tag:a", name, SLOT, 1, i) for i, name in enumerate(["x", "y", "z", "x"])]
    recovered = SlotSketches(SLOT)
    for value in absorbed(rows, []).snapshot("checkpoint").values:
        recovered.restore(value, change=1, position=1)
    recovered.absorb(table(rows[1:]), 2, RULES)
    assert counted(recovered) == counted(absorbed(rows, []))


def test_a_sketch_whose_total_would_overflow_counts_no_more_from_that_record_on() -> None:
    most = 2**40
    rows = [("tag:a", "", SLOT, most, i // 2) for i in range(6)]
    for cuts in ([], [2], [2, 4]):
        found = SlotSketches(SLOT)
        found.absorb(table([("tag:b", "", SLOT, 1, 0)]), 1, RULES)
        for one in found.states().values():
            _fill(one, 2**63 - 1 - 5 * most)
        for change, (start, end) in enumerate(zip([0, *cuts], [*cuts, 6], strict=True), 2):
            part = [(*row[:4], row[4] + 1) for row in rows[start:end]]
            found.absorb(table(part), change, RULES)
        for one in found.states().values():
            assert one.through == FULL
            assert one.added == 2**63 - 1 - 5 * most + 4 * most


def _fill(one: Frequency | Heavy, total: int) -> None:
    """As if so much had been added already."""
    rest = total - one.added
    step = 2**62
    while rest > 0:
        one.add_many(["tag:b"], [min(rest, step)])
        rest -= step


def test_what_changes_while_a_snapshot_is_written_stays_dirty() -> None:
    sketches = absorbed([("tag:a", "", SLOT, 1, 0)], [])
    flush, checkpoint = sketches.snapshot("flush"), sketches.snapshot("checkpoint")
    sketches.absorb(table([("tag:a", "eu", SLOT, 1, 1)]), 9, RULES)
    flush.confirm()
    checkpoint.confirm()
    assert {of.region for of in sketches.snapshot("flush").changes} == {"eu", ALL_REGIONS}
    assert {one.of.region for one in sketches.snapshot("checkpoint").values} == {"eu", ALL_REGIONS}


def test_windows_past_their_bound_are_counted_in_their_day_of_the_unknown_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sketched, "SKETCHES_MAX", 2)
    day = SLOT // DAY_MS * DAY_MS
    places = [("x", 0), ("y", 1), ("x", 1), ("x", 0), ("z", 2)]
    rows = [("tag:a", name, SLOT - age * MINUTE_MS, 1, i) for i, (name, age) in enumerate(places)]
    whole = counted(absorbed(rows, []))
    for cuts in ([], [1, 2, 3]):
        sketches = absorbed(rows, cuts)
        added = {of[1:]: one.added for of, one in sketches.states().items() if of.window_ms}
        assert added == {("x", SLOT): 2, ("y", SLOT - MINUTE_MS): 1, ("", day): 2}
        assert counted(sketches) == whole
    recovered = SlotSketches(SLOT)
    for value in absorbed(rows, []).snapshot("checkpoint").values:
        recovered.restore(value, change=1, position=1)
    recovered.absorb(table(rows[1:]), 2, RULES)
    assert counted(recovered) == whole
