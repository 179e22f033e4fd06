"""Counting by columns does to a shard what counting row by row does, however the log is cut."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cells import CellKey
from pipeline.changelog import CELL_VALUE
from pipeline.decode import Decoded
from pipeline.distinct import RegistersOf
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.shard import Fetched, Row, Shard
from pipeline.sketched import SketchOf
from sketches.frequency import Frequency
from tests.kit.cells import cell_values
from tests.simulation.worker import columns_of

Event = tuple[str, str, int, int, str | None, str | None]

T0 = 1_760_000_400_000
MINUTE_MS = 60_000

families = st.builds(
    FamilyRules,
    lateness_ms=st.sampled_from([0, MINUTE_MS, 20 * MINUTE_MS]),
    regions=st.booleans(),
    ids_horizon_ms=st.sampled_from([1, MINUTE_MS, 20 * MINUTE_MS]),
    cells_max=st.sampled_from([1, 2, 4, 100]),
    distinct_precision=st.sampled_from([0, 4, 5]),
    distinct_grains=st.sampled_from([("1m",), ("1h", "1d"), ("1d",)]),
    sketched=st.sampled_from([False, False, True]),
    sketch_error=st.just(0.4),
    sketch_keys=st.just(2),
    once_per_member=st.sampled_from([False, False, True]),
    once_per_error=st.sampled_from([0.0, 0.0, 0.1]),
    strict=st.sampled_from([None, None, None, StrictRules()]),
)
rules = st.builds(
    CountingRules,
    version=st.integers(1, 9),
    default=families,
    families=st.dictionaries(st.sampled_from(["a", "b"]), families),
    ids_limit=st.integers(1, 5),
)
events = st.tuples(
    st.sampled_from(["a:x", "a:y", "b:x", "ü:😀 1 2"]),
    st.sampled_from(["", "eu", "1 2", "日本"]),
    st.sampled_from([0, -MINUTE_MS, -30 * MINUTE_MS, 4 * MINUTE_MS, 6 * MINUTE_MS]),
    st.sampled_from([1, 1, 2, -1, -1, 2**40, -(2**40)]),
    st.sampled_from([None, None, "i", "j"]),
    st.sampled_from([None, "ann", "bob", "日本", *map(str, range(20))]),
)
records = st.tuples(
    st.sampled_from([0, 0, 1_000, MINUTE_MS, 11 * MINUTE_MS, -MINUTE_MS]),
    st.one_of(st.none(), rules),
    st.lists(events, max_size=4),
)
restored = st.lists(
    st.tuples(
        st.sampled_from(["a:x", "b:x", "a:", ":"]),
        st.integers(-5, 30),
        st.integers(0, 30),
        st.booleans(),
    ),
    max_size=3,
)


def fetched(
    times: list[tuple[int, int]], rules_at: list[tuple[int, CountingRules]], end: int
) -> Fetched:
    offsets, timestamps_ms = np.array(times, np.int64).T
    return Fetched(offsets, timestamps_ms, end, rules_at)


def state(shard: Shard) -> object:
    cells = {
        (slot_ms, key): tuple(int(getattr(v, name)[i]) for name in CELL_VALUE)
        for slot_ms, found in shard.slots.items()
        for v in [found.values()]
        for i, key in enumerate(v.keys)
        if v.through[i] >= 0
    }
    dirty = {
        (part.cells.slot_ms, key)
        for part in shard.snapshot(checkpoint=True).checkpoint
        for key in part.values.keys
    }
    opened = {slot_ms: +found.opened.counts for slot_ms, found in shard.slots.items()}
    ahead = {slot_ms: found.opened.ahead for slot_ms, found in shard.slots.items()}
    refused = shard.refused.unsaved()
    rest = (shard.log_ms, shard.position, shard.rules, list(shard.ids), opened, ahead, refused)
    ledger = (shard.ledger.unconfirmed(0), shard.ledger.latest())
    filters = [(one.name, one.whole) for one in shard.members.snapshot(0).filters]
    members = (shard.members.all_facts().tolist(), shard.members.since, filters)
    return cells, dirty, rest, registers(shard), sketches(shard), ledger, members


def sketches(shard: Shard) -> dict[tuple[int, SketchOf], tuple[object, int | None]]:
    """What every sketch counted, and how far: compared by counters, not by bytes."""
    return {
        (slot_ms, of): (
            tuple(table.tolist() for table in sketch.counters())
            if isinstance(sketch, Frequency)
            else sketch.top(100),
            sketch.through,
        )
        for slot_ms, found in shard.sketches.items()
        for of, sketch in found.states().items()
    }


def registers(shard: Shard) -> dict[tuple[RegistersOf, int], int]:
    """Every register that rose; cut otherwise, the log may have raised one in more steps."""
    found: dict[tuple[RegistersOf, int], int] = {}
    for raised in shard.distinct.snapshot().raised:
        counts = np.diff(raised.starts)
        of = [one for one, count in zip(raised.of, counts, strict=True) for _ in range(count)]
        for place, index, rank in zip(of, raised.indexes, raised.ranks, strict=True):
            found[place, int(index)] = max(found.get((place, int(index)), 0), int(rank))
    return found


@settings(max_examples=300, deadline=None)
@given(
    log=st.lists(records, min_size=1, max_size=25),
    ahead=restored,
    cut=st.integers(1, 25),
    is_encoded=st.booleans(),
)
def test_rows_and_columns_agree(
    log: list[tuple[int, CountingRules | None, list[Event]]],
    ahead: list[tuple[str, int, int, bool]],
    cut: int,
    *,
    is_encoded: bool,
) -> None:
    times: list[tuple[int, int]] = []
    now_ms = T0
    for offset, (step_ms, _, _) in enumerate(log):
        now_ms += step_ms
        times.append((offset, now_ms))
    rows = [
        Row(offset, row, counter, region, times[offset][1] + shift_ms, delta, id_, member)
        for offset, (_, _, found) in enumerate(log)
        for row, (counter, region, shift_ms, delta, id_, member) in enumerate(found)
    ]
    rules_at = [(offset, found) for offset, (_, found, _) in enumerate(log) if found is not None]
    one, two = Shard(0), Shard(0)
    for counter, first, length, is_full in ahead:
        p = 2**63 - 2**40 if is_full else 5
        key = CellKey(counter, "", T0).text()
        for shard in (one, two):
            shard.restore(T0, cell_values(key, p, 1, first + length, first=first))
    refused_one = one.absorb_rows(rows, fetched(times, rules_at, len(log)))
    refused_two = []
    for start in range(0, len(log), cut):
        end = min(start + cut, len(log))
        part = [row for row in rows if start <= row.offset < end]
        inside = [found for found in rules_at if start <= found[0] < end]
        columns = columns_of(part)
        if is_encoded:  # as fetches come to a worker
            columns = Decoded(columns, [], [], {}).encoded().columns
        refused_two += two.absorb_columns(columns, fetched(times[start:end], inside, end))
    assert refused_two == refused_one
    assert state(two) == state(one)
