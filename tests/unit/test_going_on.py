"""What a shard keeps when its log was trimmed, and when it goes on with another log."""

from collections import Counter

import numpy as np
import pytest

from pipeline.absorb import FEW_ROWS, absorb
from pipeline.cells import CellKey
from pipeline.control.going_on import (
    Flushed,
    after_trim,
    first_records,
    in_other_log,
    is_trimmed,
)
from pipeline.fetches import Fetch
from pipeline.recovery import RecoveredShard
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import BatchMark, Shard
from schemas.records import Headers, Records

T0 = 1_760_000_400_000
BAD = b"not JSON"
MARK = BatchMark(0, 7, T0)
Written = tuple[bytes, Headers]


def event(counter: str, id_: str | None = None) -> Written:
    named = "" if id_ is None else f',"id":"{id_}"'
    return f'{{"counter":"likes:{counter}"{named}}}'.encode(), ()


def retry(offset: int) -> Written:
    return event("retried")[0], (("tally-retry", f"{offset}/0/{T0}".encode()),)


def fetch(start: int, *records: Written, at_ms: int = T0) -> Fetch:
    size = len(records)
    values: list[bytes | None] = [value for value, _ in records]
    columns = Records(
        3,
        np.arange(start, start + size),
        np.full(size, at_ms, np.int64),
        [None] * size,
        values,
        [headers for _, headers in records],
    )
    return Fetch(start, start + size, columns)


def recovered(anew: Shard) -> Shard:
    """The shard that a worker makes of what is written of it."""
    found = RecoveredShard(anew.partition)
    records = list(first_records(anew))
    size = len(records)
    keys: list[bytes | None] = [key for key, _ in records]
    times_ms = np.zeros(size, np.int64)
    headers: list[Headers] = [()] * size
    values = [value for _, value in records]
    written = Records(anew.partition, np.arange(size), times_ms, keys, values, headers)
    found.add(0, size, written)
    position = found.position(anew.position)
    assert position == anew.position
    return found.resume(position)


def counts(*shards: Shard) -> Counter[str]:
    """What is counted of each counter in all the shards together."""
    found: Counter[str] = Counter()
    for shard in shards:
        for cells in shard.slots.values():
            values = cells.values()
            for key, p in zip(values.keys, values.p.tolist(), strict=True):
                found[CellKey.parse(key).counter] += p
    return +found


def flushed(shard: Shard) -> Flushed:
    """What ClickHouse has when all of the shard was flushed."""
    slots = {}
    for slot_ms, cells in shard.slots.items():
        values = cells.values()
        slots[slot_ms] = dict(zip(values.keys, values.through.tolist(), strict=True))
    return Flushed(shard.position - 1, slots)


NOTHING = Flushed(-1, {})


@pytest.mark.parametrize(
    ("start", "end", "flushed_through", "trimmed"),
    [
        (11, 50, 9, True),
        (11, 50, 49, True),
        (50, 50, 49, True),
        (11, 50, 50, False),
        (10, 50, 9, False),
        (0, 5, 9, False),
    ],
)
def test_a_log_was_trimmed_if_it_begins_past_the_position_and_has_all_that_was_flushed(
    start: int, end: int, flushed_through: int, *, trimmed: bool
) -> None:
    assert is_trimmed(Shard(3, 10), start, end, flushed_through) is trimmed


@pytest.mark.parametrize("goes_on", ["trimmed", "other"])
def test_an_id_that_was_counted_is_a_duplicate_after_the_log_was_given_up(goes_on: str) -> None:
    old = Shard(3)
    absorb(old, fetch(0, event("a", "x"), event("a", "y")))
    start = 5 if goes_on == "trimmed" else 0
    anew = after_trim(old, start, NOTHING) if start else in_other_log(old, start)
    shard = recovered(anew)
    absorb(shard, fetch(start, event("a", "y"), event("a", "z"), event("a", "x")))
    assert counts(shard) == {"likes:a": 1}


def test_an_id_is_forgotten_by_log_time_as_if_the_log_had_never_changed() -> None:
    old = Shard(3, rules=CountingRules(1, FamilyRules(ids_horizon_ms=1000)))
    absorb(old, fetch(0, event("a", "x")))
    shard = recovered(in_other_log(old, 0))
    absorb(shard, fetch(0, event("a", "x"), at_ms=T0 + 1000))
    absorb(shard, fetch(1, event("a", "x"), at_ms=T0 + 2001))
    assert counts(shard) == {"likes:a": 1}


def test_ids_outlive_two_logs_in_their_order_and_never_stand_at_a_place_of_the_log() -> None:
    first = Shard(3)
    absorb(first, fetch(0, event("a", "x"), event("a", "y")))
    second = recovered(in_other_log(first, 0))
    absorb(second, fetch(0, event("a", "z")))
    third = recovered(in_other_log(second, 0))
    assert [(one.id_key[-1], one.offset < 0) for one in third.ids] == [
        ("x", True),
        ("y", True),
        ("z", True),
    ]
    absorb(third, fetch(0, event("a", "z"), event("a", "x"), event("a", "new")))
    assert counts(third) == {"likes:a": 1}
    assert third.incarnation == 2


def test_a_letter_refused_before_the_trim_is_counted_once_when_it_is_retried_after() -> None:
    old = Shard(3)
    absorb(old, fetch(0, (BAD, ()), (BAD, ()), retry(1)))
    shard = recovered(after_trim(old, 7, NOTHING))
    absorb(shard, fetch(7, retry(0), retry(0), retry(1)))
    assert (counts(old), counts(shard)) == ({"likes:retried": 1}, {"likes:retried": 1})


def test_a_letter_of_another_log_is_skipped_though_a_record_of_this_one_has_its_offset() -> None:
    old = Shard(3)
    absorb(old, fetch(0, (BAD, ())))
    shard = recovered(in_other_log(old, 0))
    absorb(shard, fetch(0, event("a"), retry(0)))
    assert counts(shard) == {"likes:a": 1}


@pytest.mark.parametrize("repeated", [3, FEW_ROWS])
def test_what_was_flushed_after_the_checkpoint_is_read_again_and_not_counted_again(
    repeated: int,
) -> None:
    """Rows one by one and whole columns go different ways."""
    checkpointed, old = Shard(3), Shard(3)
    begin = fetch(0, event("a", "x"), event("b"))
    for shard in (checkpointed, old):
        absorb(shard, begin)
    rest = [event("a", "y"), event("b"), event("c"), (BAD, ()), event("c", "v"), event("d", "w")]
    more = [event("a") for _ in range(repeated)]
    absorb(old, fetch(2, *rest, *more))
    assert counts(old) == {"likes:a": 2 + repeated, "likes:b": 2, "likes:c": 2, "likes:d": 1}
    # The record at 2 is gone; those from 3 on are there, and two more that nobody counted.
    shard = recovered(after_trim(checkpointed, 3, flushed(old)))
    new = [event("c"), event("e"), event("d", "w"), event("d", "v2")]
    letters = absorb(shard, fetch(3, *rest[1:], *more, *new)).dead_letters
    assert counts(shard) == {"likes:c": 1, "likes:e": 1, "likes:d": 1}
    assert [letter.offset for letter in letters] == [5]
    absorb(shard, fetch(shard.position, retry(5)))
    assert counts(shard)["likes:retried"] == 1


def test_a_capped_family_counts_again_into_the_cells_it_counted_into_before() -> None:
    rules = CountingRules(1, FamilyRules(cells_max=2))
    checkpointed, old = Shard(3, rules=rules), Shard(3, rules=rules)
    for shard in (checkpointed, old):
        absorb(shard, fetch(0, event("a")))
    later = [event("b"), event("c"), event("b"), event("c"), event("d")]
    absorb(old, fetch(1, *later))
    truth = {"likes:a": 1, "likes:b": 2, ":": 3}
    assert counts(old) == truth
    shard = recovered(after_trim(checkpointed, 3, flushed(old)))
    absorb(shard, fetch(3, *later[2:], event("e")))
    assert counts(old, shard) == {**truth, ":": 4}


def test_slots_of_which_nothing_is_read_again_need_no_cells() -> None:
    old = Shard(3)
    absorb(old, fetch(0, event("a")))
    absorb(old, fetch(1, event("a"), at_ms=T0 + 60_000))
    anew = after_trim(Shard(3, 0, T0), 1, flushed(old))
    assert list(anew.slots) == [T0 + 60_000]


def test_log_time_rules_replica_and_the_mark_of_the_same_log_are_kept() -> None:
    rules = CountingRules(4)
    old = Shard(3, 9, T0, 1, rules, MARK, replica="main")
    trimmed, other = recovered(after_trim(old, 20, NOTHING)), recovered(in_other_log(old, 2))
    for shard in (trimmed, other):
        assert (shard.log_ms, shard.incarnation, shard.rules.version) == (T0, 2, 4)
        assert shard.replica == "main"
    assert (trimmed.position, trimmed.last_batch) == (20, MARK)
    assert (other.position, other.last_batch) == (2, None)


@pytest.mark.parametrize("goes_on", ["trimmed", "other"])
def test_who_was_in_is_still_in_after_the_log_was_given_up(goes_on: str) -> None:
    def like(member: str, delta: int = 1) -> Written:
        return f'{{"counter":"likes:a","member":"{member}","delta":{delta}}}'.encode(), ()

    once = CountingRules(1, families={"likes": FamilyRules(once_per_member=True)})
    old = Shard(3, rules=once)
    absorb(old, fetch(0, like("ann"), like("bob"), like("bob", -1)))
    start = 5 if goes_on == "trimmed" else 0
    anew = after_trim(old, start, NOTHING) if start else in_other_log(old, start)
    shard = recovered(anew)
    absorb(shard, fetch(start, like("ann"), like("bob"), like("cat")))
    assert counts(shard) == {"likes:a": 2}
    assert len(recovered(in_other_log(shard, 0)).members) == 3
