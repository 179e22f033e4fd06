"""Frames hold what was given, each row on the partition it belongs to."""

from collections import Counter
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.planning.plan import Plan
from pipeline.producer import packing
from pipeline.producer.packing import Frame, Packed, pack
from pipeline.rules import CountingRules, FamilyRules
from pipeline.sharding import chooser
from schemas.frames import FRAME_SCHEMA, read_frame

Event = dict[str, Any]
thorough = settings(max_examples=100, deadline=None)
MINUTE_MS = 60_000
NOW_MS = 1_700_000_100_000
COUNTERS = ["likes:a", "likes:ü", "views:/", "tags:#cats"]
EVENT = st.fixed_dictionaries(
    {
        "counter": st.sampled_from(COUNTERS),
        "delta": st.sampled_from([1, 1, 1, 5, -2]),
        "at": st.integers(1_700_000_000_000, 1_700_000_200_000),
        "member": st.sampled_from([None, "ann", "böb"]),
        "region": st.sampled_from(["", "eu", "us"]),
        "id": st.sampled_from([None, None, "x1", "x2"]),
    }
)


def event(counter: str, **fields: object) -> Event:
    plain = {"delta": 1, "at": 1_700_000_000_000, "member": None, "region": "", "id": None}
    return {"counter": counter, **plain, **fields}


def table(events: list[Event]) -> pa.Table:
    return pa.Table.from_pylist(events, schema=FRAME_SCHEMA)


def packed(
    events: list[Event],
    *,
    partitions: int = 8,
    id_partitions: int = 4,
    shards: dict[str, int] | None = None,
) -> Packed:
    plan = Plan(partitions, id_partitions, shards=shards or {})
    return pack(table(events), plan, chooser("round-robin", seed=1), NOW_MS)


def rows_of(frame: Frame) -> list[Event]:
    rows: list[Event] = read_frame(frame.value).columns.to_pylist()
    return rows


def cells(events: list[Event]) -> tuple[Counter[Any], Counter[Any]]:
    """What a reader counts: sums by cell and sign, and every row that must arrive as it is."""
    sums: Counter[Any] = Counter()
    whole: Counter[Any] = Counter()
    for event in events:
        if event["member"] is None and event["id"] is None:
            cell = (event["counter"], event["region"], event["at"] // MINUTE_MS, event["delta"] > 0)
            sums[cell] += event["delta"]
        else:
            whole[frozenset(event.items())] += 1
    return sums, whole


def test_where_little_is_too_late_each_moment_is_judged_alone() -> None:
    """One row for all of them would be late, or on time, as a whole."""
    rules = CountingRules(families={"likes": FamilyRules(lateness_ms=30_000)})
    at_ms = [NOW_MS - 29_990, NOW_MS, NOW_MS, NOW_MS - 29_990]
    events = [event(counter, at=at) for counter in ("likes:a", "views:a") for at in at_ms]
    found = pack(table(events), Plan(1, 1, rules=rules), chooser("round-robin", seed=1), NOW_MS)
    rows = [(row["counter"], row["at"], row["delta"]) for row in rows_of(found.frames[0])]
    assert sorted(rows) == [
        ("likes:a", NOW_MS - 29_990, 2),
        ("likes:a", NOW_MS, 2),
        ("views:a", NOW_MS - 29_990, 2),
        ("views:a", NOW_MS, 2),
    ]


@thorough
@given(st.lists(EVENT, min_size=1, max_size=80))
def test_frames_hold_what_was_given(events: list[Event]) -> None:
    frames = packed(events).frames

    assert cells([row for frame in frames for row in rows_of(frame)]) == cells(events)
    assert sum(frame.increments for frame in frames) == len(events)
    assert [frame.rows for frame in frames] == [len(rows_of(frame)) for frame in frames]


@thorough
@given(st.lists(EVENT, min_size=1, max_size=80), st.sampled_from([1, 3, 8]))
def test_each_row_is_where_it_belongs(events: list[Event], shards: int) -> None:
    """Rows with an id by counter and id, whatever the plan; others on a shard of their counter."""
    for frame in packed(events, shards=dict.fromkeys(COUNTERS, shards)).frames:
        for row in rows_of(frame):
            if row["id"] is None:
                first = crc32(row["counter"].encode())
                assert frame.partition in {(first + s) % 8 for s in range(shards)}
            else:
                assert frame.partition == crc32(f"{row['counter']}\0{row['id']}".encode()) % 4


@thorough
@given(st.lists(EVENT, min_size=1, max_size=80))
def test_a_receipt_finds_the_frame_of_its_row(events: list[Event]) -> None:
    result = packed(events, shards={"likes:a": 4})

    held = [cells(rows_of(frame)) for frame in result.frames]
    for number, event in enumerate(events):
        sums, whole = held[int(result.frame_of_row[number])]
        one_sum, one_whole = cells([event])
        assert set(one_sum) <= set(sums)
        assert set(one_whole) <= set(whole)


@thorough
@given(st.lists(EVENT, min_size=1, max_size=80))
def test_rows_of_one_id_keep_their_order(events: list[Event]) -> None:
    order: dict[tuple[str, str], list[Event]] = {}
    for frame in packed(events).frames:
        for row in rows_of(frame):
            if row["id"] is not None:
                order.setdefault((row["counter"], row["id"]), []).append(row)

    for (counter, id_), rows in order.items():
        assert rows == [e for e in events if (e["counter"], e["id"]) == (counter, id_)]


def test_a_split_counter_is_spread_over_its_shards() -> None:
    events = [event("likes:a", member=f"m{n}") for n in range(800)]

    frames = packed(events, shards={"likes:a": 4}).frames

    first = crc32(b"likes:a")
    expected = {(first + shard) % 8: 200 for shard in range(4)}
    assert {frame.partition: frame.rows for frame in frames} == expected


def test_load_counts_packed_rows_without_id_by_counter() -> None:
    events = [event("likes:a") for _ in range(10)]
    events += [event("likes:b", member=f"m{n}") for n in range(5)]
    events += [event("likes:b", id=f"i{n}") for n in range(3)]

    load = packed(events).load

    assert dict(zip(load.counters.to_pylist(), load.rows.tolist(), strict=True)) == {
        "likes:a": 1,
        "likes:b": 5,
    }


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 400), st.integers(2, 250), st.randoms(use_true_random=False))
def test_frames_stay_small(rows: int, longest: int, random: Random) -> None:
    """Rows are cut into frames of bounded size, however unevenly long they are."""
    events = [
        event(
            "a:" + "k" * random.randrange(1, longest),
            member="m" * random.randrange(1, longest + 1),
        )
        for _ in range(rows)
    ]
    before, packing.FRAME_BYTES = packing.FRAME_BYTES, 4096
    try:
        frames = packed(events, partitions=1).frames
    finally:
        packing.FRAME_BYTES = before

    assert all(len(frame.value) <= 4096 for frame in frames if frame.rows > 1)
    assert cells([row for frame in frames for row in rows_of(frame)]) == cells(events)


@pytest.mark.parametrize("partitions", [1, 255, 256, 4096])
def test_any_number_of_partitions(partitions: int) -> None:
    rng = np.random.default_rng(3)
    events = [event(f"c:{n}", member="m") for n in rng.integers(0, 500, 2_000).tolist()]

    for frame in packed(events, partitions=partitions, id_partitions=1).frames:
        for row in rows_of(frame):
            assert crc32(row["counter"].encode()) % partitions == frame.partition


@thorough
@given(st.lists(EVENT, min_size=1, max_size=40))
def test_families_may_fix_their_shards(events: list[Event]) -> None:
    """A family's number holds for all its counters, whatever was planned for one of them."""
    rules = CountingRules(families={"likes": FamilyRules(shards=2)})
    plan = Plan(8, 4, rules, {"likes:a": 8, "views:/": 4})

    for frame in pack(table(events), plan, chooser("random", seed=1), NOW_MS).frames:
        for row in rows_of(frame):
            shards = {"likes": 2, "views": 4, "tags": 1}[row["counter"].partition(":")[0]]
            first = crc32(row["counter"].encode())
            if row["id"] is None:
                assert frame.partition in {(first + s) % 8 for s in range(shards)}


def test_in_a_family_that_counts_once_per_member_all_rows_of_a_member_meet_in_order() -> None:
    once = CountingRules(1, families={"likes": FamilyRules(once_per_member=True, shards=8)})
    likes = [
        event("likes:a", member=f"m{row % 7}", delta=1 if row % 2 else -1, at=NOW_MS + row, id=id_)
        for row, id_ in enumerate([None, "x1", "x2"] * 20)
    ]
    views = [event("views:a", member=f"m{row % 7}", id="x1") for row in range(10)]
    plan = Plan(8, 4, once)
    frames = pack(table(likes + views), plan, chooser("random", seed=1), NOW_MS).frames
    found: list[Event] = []
    for frame in frames:
        for row in rows_of(frame):
            text = row["member"] if row["counter"] == "likes:a" else row["id"]
            assert frame.partition == crc32(f"{row['counter']}\0{text}".encode()) % 4
            found.append(row)
    for member in {one["member"] for one in likes}:
        sent = [one["at"] for one in likes if one["member"] == member]
        assert [
            one["at"] for one in found if one["counter"] == "likes:a" and one["member"] == member
        ] == sent


def test_rows_without_a_member_go_where_the_plan_says_in_such_a_family_too() -> None:
    once = CountingRules(1, families={"likes": FamilyRules(once_per_member=True)})
    plan = Plan(8, 4, once)
    [frame] = pack(table([event("likes:a")]), plan, chooser("random", seed=1), NOW_MS).frames
    assert frame.partition == crc32(b"likes:a") % 8
