"""Registers that reach ClickHouse are those of the members, however the log is cut and flushed."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from clickhouse_cityhash.cityhash import CityHash64
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.distinct import RegistersOf
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.shard import Fetched, Row, Shard
from tests.simulation.worker import columns_of

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
T0 = 1_760_054_280_000  # A few minutes before the end of an hour and a day.
LENGTH_MS = {"1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}
EARLINESS_MS = 300_000
AGES_MS = (0, 1, MINUTE_MS, HOUR_MS, DAY_MS, 45 * DAY_MS, 300 * DAY_MS, -300_000, -300_001)

Registers = dict[RegistersOf, dict[int, int]]

families = st.builds(
    FamilyRules,
    lateness_ms=st.sampled_from([MINUTE_MS, 400 * DAY_MS]),
    regions=st.booleans(),
    distinct_precision=st.sampled_from([0, 4, 9, 16]),
    distinct_grains=st.sampled_from([("1m",), ("1h", "1d"), ("1d",)]),
    sketched=st.booleans(),
    trends=st.builds(TrendRules, enabled=st.booleans()),
)
rules = st.builds(
    CountingRules,
    default=families,
    families=st.dictionaries(st.sampled_from(["a", "b"]), families),
)


@dataclass(frozen=True)
class Event:
    counter: str
    region: str
    age_ms: int
    delta: int
    member: str | None


@dataclass(frozen=True)
class Record:
    step_ms: int
    rules: CountingRules | None
    events: list[Event]


events = st.builds(
    Event,
    counter=st.sampled_from(["a:x", "a:y", "b:x", ":z", "ü:😀 1 2"]),
    region=st.sampled_from(["", "eu", "1 2", "日本"]),
    age_ms=st.sampled_from(AGES_MS),
    delta=st.sampled_from([1, 1, 7, -1]),
    member=st.none() | st.integers(0, 40).map("user-{}".format) | st.text(max_size=20),
)
records = st.builds(
    Record,
    step_ms=st.sampled_from([0, 1_000, MINUTE_MS, 9 * MINUTE_MS, -MINUTE_MS]),
    rules=st.none() | rules,
    events=st.lists(events, max_size=12),
)


@dataclass(frozen=True)
class Fetch:
    """How many records it brings, how they are counted, and whether they are flushed then."""

    length: int
    by_columns: bool
    flushed: bool
    confirmed: bool


fetches = st.builds(
    Fetch,
    st.integers(1, 8),
    by_columns=st.booleans(),
    flushed=st.booleans(),
    confirmed=st.booleans(),
)


def numbered(log: list[Record]) -> list[tuple[int, int, CountingRules | None, list[Event]]]:
    """Each record's offset, timestamp, rules of a greater version than any before, and events."""
    found, now_ms = [], T0
    for offset, record in enumerate(log):
        now_ms += record.step_ms
        given_rules = record.rules and CountingRules(
            offset + 1, record.rules.default, record.rules.families
        )
        found.append((offset, now_ms, given_rules, record.events))
    return found


def places(
    event: Event, log_ms: int, default: FamilyRules, named: dict[str, FamilyRules]
) -> Iterator[RegistersOf]:
    """Whose registers a member is for, by the definition."""
    name = event.counter.split(":")[0]
    family = named.get(name, default)
    at_ms, day = log_ms - event.age_ms, log_ms // DAY_MS
    counter, region = event.counter, event.region if family.regions else ""
    if family.sketched:
        counter, region = f"{name if name in named else ''}:", ""
    if family.distinct_precision:
        length_ms = min(LENGTH_MS[grain] for grain in family.distinct_grains)
        window_ms = at_ms // length_ms * length_ms
        precision, grains = family.distinct_precision, family.distinct_grains
        yield RegistersOf(counter, region, window_ms, day, precision, grains)
    if family.trends.enabled:
        slot_ms = log_ms // MINUTE_MS * MINUTE_MS
        yield RegistersOf(counter, region, slot_ms, day, 12, ("slot",))


def truth(log: list[Record]) -> Registers:
    """Row by row: the first bits choose a register, the zeros after them are its rank."""
    found: Registers = defaultdict(dict)
    default, named, log_ms = FamilyRules(), {}, 0
    for _, timestamp_ms, given_rules, happened in numbered(log):
        log_ms = max(log_ms, timestamp_ms)
        if given_rules is not None:
            default, named = given_rules.default, dict(given_rules.families)
        for event in happened:
            lateness_ms = named.get(event.counter.split(":")[0], default).lateness_ms
            at_ms = timestamp_ms - event.age_ms
            is_placed = log_ms - lateness_ms <= at_ms <= log_ms + EARLINESS_MS
            if event.member is None or event.delta < 0 or not is_placed:
                continue
            bits = f"{CityHash64(event.member.encode()):064b}"
            aged = Event(event.counter, event.region, log_ms - at_ms, 1, event.member)
            for of in places(aged, log_ms, default, named):
                index, rest = int(bits[: of.precision], 2), bits[of.precision :]
                rank = len(rest) - len(rest.lstrip("0")) + 1
                found[of][index] = max(found[of].get(index, 0), rank)
    return found


def store(shard: Shard, stored: Registers, *, confirmed: bool) -> None:
    """Merge what waits by max, as ClickHouse does."""
    snapshot = shard.distinct.snapshot()
    for raised in snapshot.raised:
        for i, of in enumerate(raised.of):
            for at in range(raised.starts[i], raised.starts[i + 1]):
                index, rank = int(raised.indexes[at]), int(raised.ranks[at])
                stored[of][index] = max(stored[of].get(index, 0), rank)
    if confirmed:
        snapshot.confirm()


@settings(max_examples=150, deadline=None)
@given(log=st.lists(records, min_size=1, max_size=20), cuts=st.lists(fetches, min_size=1))
def test_registers_are_those_of_the_members_however_the_log_is_cut(
    log: list[Record], cuts: list[Fetch]
) -> None:
    stored: Registers = defaultdict(dict)
    shard, whole, start = Shard(0), numbered(log), 0
    while start < len(log):
        fetch = cuts[start % len(cuts)]
        part = whole[start : start + fetch.length]
        start += len(part)
        fetched = Fetched(
            np.array([offset for offset, *_ in part]),
            np.array([timestamp_ms for _, timestamp_ms, *_ in part]),
            start,
            [(offset, found) for offset, _, found, _ in part if found is not None],
        )
        rows = [
            Row(offset, row, one.counter, one.region, ms - one.age_ms, one.delta, None, one.member)
            for offset, ms, _, happened in part
            for row, one in enumerate(happened)
        ]
        if fetch.by_columns:
            shard.absorb_columns(columns_of(rows), fetched)
        else:
            shard.absorb_rows(rows, fetched)
        if fetch.flushed:
            store(shard, stored, confirmed=fetch.confirmed)
    store(shard, stored, confirmed=True)
    assert stored == truth(log)
