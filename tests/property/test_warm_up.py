"""A build that begins in the middle of the log counts from a slot on as one that read all of it."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.changelog import CELL_VALUE
from pipeline.rules import CountingRules
from pipeline.shard import Fetched, Row, Shard
from tests.property.test_absorb_agrees import Event, records, sketches
from tests.simulation.worker import columns_of

T0 = 1_760_000_400_000
SLOT_MS = 60_000

Log = list[tuple[int, CountingRules | None, list[Event]]]


def absorb(shard: Shard, log: Log, start: int, end: int, *, columns: bool) -> set[tuple[int, int]]:
    """Count the records from `start` to `end`; returns the places that were refused."""
    times = np.cumsum([T0, *(step_ms for step_ms, _, _ in log)])[1:]
    rows = [
        Row(offset, row, counter, region, int(times[offset]) + shift_ms, delta, id_, member)
        for offset in range(start, end)
        for row, (counter, region, shift_ms, delta, id_, member) in enumerate(log[offset][2])
    ]
    rules_at = [(at, found) for at in range(start, end) if (found := log[at][1]) is not None]
    fetched = Fetched(np.arange(start, end), times[start:end], end, rules_at)
    if columns:
        refused = shard.absorb_columns(columns_of(rows), fetched)
    else:
        refused = shard.absorb_rows(rows, fetched)
    return {(one.offset, one.row) for one in refused}


def flushed(shard: Shard, since_ms: int) -> dict[tuple[int, str], tuple[int, ...]]:
    """The cells that a flush would write, of slots that begin at `since_ms` or later."""
    return {
        (part.cells.slot_ms, key): tuple(int(getattr(part.values, name)[i]) for name in CELL_VALUE)
        for part in shard.snapshot(checkpoint=False).flush
        for i, key in enumerate(part.values.keys)
        if part.cells.slot_ms >= since_ms
    }


@settings(max_examples=300, deadline=None)
@given(
    log=st.lists(records, min_size=2, max_size=30),
    start=st.integers(1, 15),
    cut=st.integers(1, 30),
    columns=st.booleans(),
)
def test_what_is_counted_from_a_slot_on_does_not_depend_on_what_was_deleted_long_before(
    log: Log, start: int, cut: int, columns: bool
) -> None:
    start = min(start, len(log) - 1)
    # In a log the greatest version is applied last, and is repeated.
    log = [
        (step_ms, None if found is None else replace(found, version=at + 1), events)
        for at, (step_ms, found, events) in enumerate(log)
    ]
    times = np.cumsum([T0, *(step_ms for step_ms, _, _ in log)])[1:].tolist()
    known = [(at, found) for at, (_, found, _) in enumerate(log) if found is not None]
    first = next(((at, found) for at, found in known if at >= start), None)
    if first is None:
        return
    horizon_ms = max(found.ids_horizon_ms_max for _, found in [*known, (0, CountingRules())])
    ready_ms = max(times[start : first[0] + 1]) + horizon_ms + 1
    from_ms = -(-ready_ms // SLOT_MS) * SLOT_MS

    whole = Shard(0)
    late = Shard(0, start, rules=first[1], counts_from_ms=from_ms)
    refused_whole = absorb(whole, log, 0, len(log), columns=columns)
    refused_late: set[tuple[int, int]] = set()
    for at in range(start, len(log), cut):
        refused_late |= absorb(late, log, at, min(at + cut, len(log)), columns=columns)
        late.snapshot(checkpoint=False)

    assert flushed(late, 0) == flushed(whole, from_ms)
    late_sketches = sketches(late)
    assert late_sketches == {
        key: found for key, found in sketches(whole).items() if key[0] >= from_ms
    }
    greatest = np.maximum.accumulate(times)
    counted = {at for at in range(len(log)) if greatest[at] >= from_ms}
    assert {one for one in refused_late if one[0] in counted} == {
        one for one in refused_whole if one[0] in counted
    }
