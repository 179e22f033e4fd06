"""Few increments become JSON that the pipeline reads as it was meant, on the right partitions."""

import json
from collections import Counter
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.planning.plan import Plan
from pipeline.producer.batch import Batch
from pipeline.producer.delivery import Unknown
from pipeline.producer.few import FEW_ROWS, Row, pack_few
from pipeline.rules import CountingRules, FamilyRules
from schemas.events import check_event
from tests.unit.producer.test_packing import EVENT, event, table, thorough

PARTITIONS, ID_PARTITIONS = 8, 4


def rows(events: list[dict[str, Any]]) -> list[Row]:
    return [Row(**one) for one in events]


def partition_of(one: dict[str, Any]) -> int:
    if one["id"] is None:
        return crc32(one["counter"].encode()) % PARTITIONS
    return crc32(f"{one['counter']}\0{one['id']}".encode()) % ID_PARTITIONS


@thorough
@given(st.lists(EVENT, min_size=1, max_size=FEW_ROWS))
def test_each_row_is_a_message_that_says_all_of_it(events: list[dict[str, Any]]) -> None:
    found = pack_few(rows(events), Plan(PARTITIONS, ID_PARTITIONS))
    assert found is not None
    assert found.frame_of_row.tolist() == list(range(len(events)))
    for one, frame in zip(events, found.frames, strict=True):
        assert (frame.rows, frame.increments, frame.is_line) == (1, 1, True)
        assert frame.partition == partition_of(one)
        read = check_event(json.loads(frame.value))
        assert {name: getattr(read, name) for name in one} == one
        unknown = Unknown(frame.partition, 1, "gone", frame)
        assert unknown.columns().to_pylist() == table([one]).to_pylist()


@thorough
@given(st.lists(EVENT, min_size=1, max_size=FEW_ROWS))
def test_the_load_is_that_of_rows_without_an_id(events: list[dict[str, Any]]) -> None:
    found = pack_few(rows(events), Plan(PARTITIONS, ID_PARTITIONS))
    assert found is not None
    told = dict(zip(found.load.counters.to_pylist(), found.load.rows.tolist(), strict=True))
    assert told == Counter(one["counter"] for one in events if one["id"] is None)


def test_a_split_counter_is_left_to_frames_unless_its_rows_have_ids() -> None:
    plan = Plan(PARTITIONS, ID_PARTITIONS, shards={"likes:a": 3})
    assert pack_few(rows([event("likes:b"), event("likes:a")]), plan) is None
    assert pack_few(rows([event("likes:b"), event("likes:a", id="x")]), plan) is not None


def test_rows_of_a_member_who_counts_once_meet_whatever_their_ids() -> None:
    rules = CountingRules(1, families={"liked": FamilyRules(once_per_member=True)})
    plan = Plan(PARTITIONS, ID_PARTITIONS, rules, shards={"liked:a": 3})
    given_rows = [event("liked:a", member="ann", id=name) for name in ("x", "y", None)]
    found = pack_few(rows([*given_rows, event("likes:a", member="ann")]), plan)
    assert found is not None
    met = crc32(b"liked:a\0ann") % ID_PARTITIONS
    assert [frame.partition for frame in found.frames[:3]] == [met] * 3
    assert found.load.counters.to_pylist() == ["likes:a"]


@pytest.mark.parametrize(("singles", "are_few"), [(1, True), (3, True), (4, False)])
def test_a_batch_of_single_increments_is_few_up_to_a_number(singles: int, *, are_few: bool) -> None:
    batch, one = Batch(), Row(**event("likes:a", member="ann"))
    for _ in range(singles):
        batch.fields += one
    assert batch.few(3) == ([one] * singles if are_few else None)


def test_a_batch_with_a_table_in_it_is_not_few() -> None:
    batch = Batch()
    batch.add(table([event("likes:a")]))
    batch.fields += Row(**event("likes:b"))
    assert batch.few(10) is None
