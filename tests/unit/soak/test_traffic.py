"""The traffic of a soak: what it comes to, and that it changes while its size does not."""

import json
from collections import Counter
from typing import Any
from zlib import crc32

import pyarrow as pa

from benchmarks._soak_traffic import (
    COUNTERS,
    LIFE_S,
    PAIRS,
    RULES,
    SHARES,
    STEP_S,
    Population,
    Rows,
    Traffic,
    pairs_at,
)
from schemas.families import parse_families

PARTITIONS = 4


def documents(batch: list[Rows]) -> list[tuple[int, dict[str, Any]]]:
    return [
        (partition, json.loads(line))
        for rows in batch
        for partition, line in zip(rows.partitions.tolist(), rows.as_json(), strict=True)
    ]


def counted(sent: list[dict[str, Any]]) -> dict[str, int]:
    """Each event by the rules of its family, one after the other."""
    totals: Counter[str] = Counter()
    ids: set[tuple[str, str]] = set()
    following: set[tuple[str, str]] = set()
    for event in sent:
        family = event["counter"].partition(":")[0]
        if family == "follows":
            pair = (event["counter"], event["member"])
            (following.add if event["delta"] > 0 else following.discard)(pair)
        elif family != "orders" or (event["counter"], event["id"]) not in ids:
            totals[family] += event["delta"]
            ids.add((event["counter"], event.get("id", "")))
    totals["follows"] = len(following)
    return dict(totals)


def test_the_totals_are_those_of_the_events_counted_one_by_one() -> None:
    traffic = Traffic(PARTITIONS, 60)
    sent = [one for at_s in range(0, 60, 2) for _, one in documents(traffic.batch(1000, at_s))]
    assert len(sent) == 30_000
    assert traffic.net == counted(sent)
    assert all(traffic.net.values())


def test_some_ids_come_again_and_no_other_batch_has_them() -> None:
    traffic = Traffic(PARTITIONS, 60)
    ids = [
        Counter(one["id"] for _, one in documents(traffic.batch(1000, 0)) if "id" in one)
        for _ in range(2)
    ]
    assert [(each.total(), len(each)) for each in ids] == [(100, 95), (100, 95)]
    assert not ids[0] & ids[1]


def test_what_must_meet_meets_in_one_partition() -> None:
    for partition, event in documents(Traffic(PARTITIONS, 60).batch(2000, 0)):
        family = event["counter"].partition(":")[0]
        second = {"orders": "id", "follows": "member"}.get(family)
        key = event["counter"] + (f"\0{event[second]}" if second else "")
        assert partition == crc32(key.encode()) % PARTITIONS


def test_frames_have_the_same_events_as_documents() -> None:
    batch = Traffic(PARTITIONS, 60).batch(1000, 0)
    framed = [
        {name: value for name, value in row.items() if value is not None}
        for rows in batch
        for partition in range(PARTITIONS)
        for row in pa.table(rows.as_columns(partition)).to_pylist()
    ]
    expected = [
        one
        for rows in batch
        for number in range(PARTITIONS)
        for partition, one in documents([rows])
        if partition == number
    ]
    assert framed == expected


def test_a_population_is_replaced_within_a_life_a_share_at_a_time() -> None:
    population = Population("user-", 600)

    def names(at_s: float) -> set[str]:
        return {population.name(number, at_s) for number in range(600)}

    assert [len(names(at_s)) for at_s in (0, LIFE_S / 2, LIFE_S)] == [600, 600, 600]
    kept = [len(names(0) & names(at_s)) for at_s in (STEP_S, LIFE_S / 2, LIFE_S)]
    assert kept == [590, 300, 0]


def test_events_are_of_who_is_there_by_then() -> None:
    counters, traffic = Population("likes:key-", COUNTERS["likes"]), Traffic(PARTITIONS, 3600)
    for at_s in (0.0, 35.0, 3600.0):
        there = {counters.name(number, at_s) for number in range(200)}
        sent = {one["counter"] for _, one in documents(traffic.batch(1000, at_s))}
        first = {f"likes:key-{number}-" for number in range(200)}
        of_first = {name for name in sent if f"{name.rpartition('-')[0]}-" in first}
        assert of_first
        assert of_first <= there


def test_followers_are_as_many_at_any_time_and_new_ones_come() -> None:
    traffic = Traffic(PARTITIONS, 7200)
    fans = [
        [
            int(one["member"][4:])
            for _, one in documents(traffic.batch(20_000, at_s))
            if "fan-" in one.get("member", "")
        ]
        for at_s in (0.0, 7200.0)
    ]
    for numbers, newest in zip(fans, (pairs_at(0), pairs_at(7200)), strict=True):
        assert newest - PAIRS <= min(numbers)
        assert newest - PAIRS * 0.01 < max(numbers) < newest


def test_the_rules_name_every_kind_of_family() -> None:
    families = parse_families(RULES).families
    assert {one.kind for one in families.values()} == {"exact", "sketched", "strict"}
    assert families["follows"].once_per == "member"
    assert families["likes"].distinct.enabled
    assert families["likes"].trends.enabled
    assert set(families) <= {*SHARES, "stock"}
