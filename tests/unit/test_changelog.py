"""Recovery: the shard that comes out of a changelog, whoever wrote into it and in which order."""

import msgspec
import numpy as np
import pytest

from pipeline.cells import CellKey
from pipeline.changelog import (
    ChangelogRecord,
    checkpoint_records,
    position_record,
    tombstones,
)
from pipeline.errors import OperatorError, ShardRefusedError, TryAgainError
from pipeline.ids import Occurrence
from pipeline.recovery import RecoveredShard
from pipeline.refused import RefusedPlaces
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import BatchMark, Fetched, Row, Shard
from schemas.records import Records
from tests.kit.cells import cell_values

SLOT = 1_760_000_400_000
KEY = CellKey("likes:post-42", "eu", SLOT).text()
BATCH = BatchMark(0, 7, 0)


def cell(
    p: int, through: int, generation: int, key: str = KEY, incarnation: int = 0
) -> ChangelogRecord:
    shard = Shard(3, incarnation=incarnation)
    shard.restore(SLOT, cell_values(key, p, 0, through))
    record, _position = checkpoint_records(shard.snapshot(checkpoint=True), generation)
    return record


def position(
    offset: int,
    log_ms: int,
    generation: int,
    *,
    batch: BatchMark | None = BATCH,
    incarnation: int = 0,
) -> ChangelogRecord:
    shard = Shard(3, offset, log_ms, incarnation, last_batch=batch)
    return position_record(shard.snapshot(checkpoint=False), generation)


def recovered(*records: ChangelogRecord, start: int = 0) -> RecoveredShard:
    shard = RecoveredShard(3)
    add(shard, start, *records)
    return shard


def add(shard: RecoveredShard, start: int, *records: ChangelogRecord) -> None:
    size = len(records)
    shard.add(
        start,
        start + size,
        Records(
            3,
            np.arange(start, start + size),
            np.zeros(size, np.int64),
            [key for key, _ in records],
            [value for _, value in records],
            [()] * size,
        ),
    )


def nothing_else(next_offset: int) -> Fetched:
    """A fetch of one record, of which nothing but its rows matters."""
    return Fetched(np.array([next_offset - 1]), np.zeros(1, np.int64), next_offset)


def totals(shard: Shard) -> dict[str, tuple[int, int]]:
    return {
        key: (int(values.p[i]), int(values.through[i]))
        for cells in shard.slots.values()
        for values in [cells.values()]
        for i, key in enumerate(values.keys)
    }


def test_recovery_takes_the_greatest_through_over_generations_not_the_last_write() -> None:
    zombie_wrote_last = recovered(
        position(10, SLOT, 1), cell(9, 8, 2), cell(5, 4, 1), position(9, SLOT, 2)
    )
    assert totals(zombie_wrote_last.resume(9)) == {KEY: (9, 8)}


def test_log_time_is_that_of_exactly_the_committed_offset() -> None:
    found = recovered(position(10, SLOT + 1, 1), position(20, SLOT + 2, 1))
    shard = found.resume(10)
    assert (shard.position, shard.log_ms) == (10, SLOT + 1)


def test_a_committed_offset_past_every_position_has_none_to_go_on_at() -> None:
    found = recovered(position(10, SLOT, 1))
    assert found.position(15) is None
    with pytest.raises(ShardRefusedError, match="committed at offset 15"):
        found.refuse(15)


def test_recovery_goes_on_at_the_greatest_position_committed_or_not() -> None:
    found = recovered(position(10, SLOT, 1), position(20, SLOT, 1))
    assert [found.position(committed) for committed in (None, 5, 10, 20)] == [20, 20, 20, 20]


def test_a_position_of_a_newer_generation_goes_before_one_that_is_further_on() -> None:
    """The zombie that wrote the latter may have lost its cells to tombstones of the former."""
    found = recovered(position(12, SLOT, 3), position(14, SLOT, 1))
    assert [found.position(committed) for committed in (None, 10, 12)] == [12, 12, 12]


def test_a_greater_incarnation_goes_before_a_greater_offset() -> None:
    found = recovered(position(100, SLOT, 1), position(3, SLOT, 0, incarnation=1))
    assert found.position(3) == 3


def test_a_changelog_with_nothing_in_it_is_new() -> None:
    assert recovered().is_new()
    forgotten = cell(1, 1, 1)
    assert recovered(forgotten, *tombstones([forgotten[0]])).is_new()
    assert not recovered(position(7, 0, 1, batch=None)).is_new()


def test_a_tombstone_forgets_its_generation_only() -> None:
    old, new = cell(3, 5, 1), cell(2, 4, 2)
    found = recovered(position(6, SLOT, 2), old, new, *tombstones([old[0]]))
    assert totals(found.resume(6)) == {KEY: (2, 4)}


def test_recovered_cells_are_dirty_for_both_purposes() -> None:
    shard = recovered(position(6, SLOT, 1), cell(3, 5, 1)).resume(6)
    snapshot = shard.snapshot(checkpoint=True)
    assert len(snapshot.flush) == len(snapshot.checkpoint) == 1


def test_keys_of_its_own_generation_are_never_up_for_forgetting() -> None:
    own, other, resumed = cell(1, 1, 5), cell(1, 1, 4), position(2, SLOT, 4)
    assert recovered(own, other, resumed).unneeded(5, 2) == [other[0], resumed[0]]


def test_a_changelog_with_nothing_in_it_holds_nothing_unneeded() -> None:
    assert recovered().unneeded(1, 0) == []


def test_cells_of_older_incarnations_are_unneeded() -> None:
    old, resumed = cell(9, 90, 1), position(5, SLOT, 2, incarnation=1)
    assert recovered(old, resumed).unneeded(3, 5) == [old[0], resumed[0]]


def place_keys(*places: tuple[str, int, int, int], suffix: tuple[object, ...]) -> list[bytes]:
    """Keys of ids or refused places as the changelog's description has them."""
    return [msgspec.msgpack.encode((2, *place, *suffix)) for place in places]


def counted_with_ids(position_: int, limit: int, incarnation: int) -> list[ChangelogRecord]:
    """What owners wrote whose tombstones were all lost: ids at each offset before a position."""
    rules = CountingRules(1, ids_limit=limit)
    shard = Shard(3, log_ms=SLOT, incarnation=incarnation, rules=rules, last_batch=BATCH)
    records: list[ChangelogRecord] = []
    for i in range(position_):
        shard.absorb_rows([Row(i, 0, "likes:a", "", SLOT, 1, "x")], nothing_else(i + 1))
        records += checkpoint_records(shard.snapshot(checkpoint=True), 1)
    return records


def test_ids_that_were_forgotten_at_the_position_are_unneeded_and_later_ones_are_not() -> None:
    records = counted_with_ids(6, limit=1, incarnation=0)
    found = recovered(*records)
    # At offset 4 those at 2 and 3 are remembered; those at 4 and 5 an owner ahead has written.
    assert [one.offset for one in found.resume(4).ids] == [2, 3]
    unneeded = [key for key in found.unneeded(2, 4) if b"\xa2id" in key]
    assert unneeded == place_keys(("id", 0, 0, 0), ("id", 0, 1, 0), suffix=("likes:a\0x",))


def test_ids_of_older_incarnations_are_unneeded_wherever_they_were() -> None:
    older = counted_with_ids(3, limit=100, incarnation=0)
    accepted = position(1, SLOT, 0, batch=None, incarnation=1)
    newer = [one for one in counted_with_ids(2, limit=100, incarnation=1) if b"\xa2id" in one[0]]
    unneeded = recovered(*older, accepted, *newer).unneeded(2, 1)
    # No id is remembered at offset 1, so that at 0 is gone; that at 1 is still to come.
    assert [key for key in unneeded if b"\xa2id" in key] == place_keys(
        *(("id", 0, offset, 0) for offset in range(3)),
        ("id", 1, 0, 0),
        suffix=("likes:a\0x",),
    )


def refusing(limit: int, incarnation: int = 0) -> list[ChangelogRecord]:
    """Places 0 to 3 are refused and 1 is retried at 4; no tombstone was written."""
    shard = Shard(3, 5, SLOT, incarnation, last_batch=BATCH, refused=RefusedPlaces(limit=limit))
    for offset in range(4):
        shard.refused.refuse((offset, 0, SLOT))
    shard.refused.retry((1, 0, SLOT), 4)
    return list(checkpoint_records(shard.snapshot(checkpoint=True), 1))


def test_refused_places_that_were_forgotten_are_unneeded_with_their_retries() -> None:
    first_written = [one for one in refusing(4) if b"refused" in one[0]]
    found = recovered(*first_written, *refusing(2))
    unneeded = [key for key in found.unneeded(2, 5) if b"refused" in key]
    assert sorted(unneeded) == sorted(
        [
            *place_keys(("refused", 0, 0, 0), ("refused", 0, 1, 0), suffix=(SLOT, -1)),
            *place_keys(("refused", 0, 1, 0), suffix=(SLOT, 4)),
        ]
    )


def test_refused_places_of_older_incarnations_are_unneeded() -> None:
    found = recovered(*refusing(4), position(2, SLOT, 0, batch=None, incarnation=1))
    unneeded = [key for key in found.unneeded(2, 2) if b"refused" in key]
    assert len(unneeded) == 5


def test_a_gap_in_what_was_read_is_noticed() -> None:
    found = recovered(cell(1, 1, 1))
    with pytest.raises(TryAgainError, match="expected offset 1, got 2"):
        add(found, 2, cell(2, 2, 1))


def test_a_format_of_another_version_is_refused_by_name() -> None:
    key = msgspec.msgpack.encode((99, "cell", SLOT, KEY, 1))
    with pytest.raises(OperatorError, match="format 99"):
        recovered((key, b"x")).resume(0)


def test_a_record_without_a_key_is_refused() -> None:
    shard = RecoveredShard(3)
    records = Records(3, np.array([0]), np.array([0]), [None], [b"x"], [()])
    with pytest.raises(OperatorError, match="without a key"):
        shard.add(0, 1, records)


def test_cells_of_another_incarnation_stay_out() -> None:
    found = recovered(
        position(5, SLOT, 2, incarnation=1), cell(9, 90, 1), cell(1, 4, 2, incarnation=1)
    )
    shard = found.resume(5)
    assert shard.incarnation == 1
    assert totals(shard) == {KEY: (1, 4)}


def test_rules_batch_and_ids_come_back_as_they_were_at_the_committed_offset() -> None:
    rules = CountingRules(3, FamilyRules(1_000), {"likes": FamilyRules(regions=False)}, 2)
    shard = Shard(3, log_ms=SLOT, rules=rules, last_batch=BATCH)
    rows = [Row(i, 0, "likes:a", "", SLOT, 1, f"id-{i}") for i in range(5)]
    shard.absorb_rows(rows, nothing_else(5))
    early = list(checkpoint_records(shard.snapshot(checkpoint=True), 1))
    later = [Row(i, 0, "likes:a", "", SLOT, 1, f"id-{i}") for i in range(5, 7)]
    shard.absorb_rows(later, nothing_else(7))
    late = list(checkpoint_records(shard.snapshot(checkpoint=True), 1))
    found = recovered(*early, *late).resume(5)
    assert (found.rules, found.last_batch, found.log_ms) == (rules, BATCH, SLOT)
    assert found.ids.unsaved() == []
    assert list(found.ids) == [Occurrence(f"likes:a\0id-{i}", i, 0, SLOT) for i in (2, 3, 4)]


def test_ids_that_were_forgotten_but_not_yet_in_the_changelog_stay_forgotten() -> None:
    shard = Shard(3, log_ms=SLOT, rules=CountingRules(ids_limit=1), last_batch=BATCH)
    for i in range(4):
        row = Row(i, 0, "likes:a", "", SLOT, 1, f"id-{i}")
        shard.absorb_rows([row], nothing_else(i + 1))
        records = list(checkpoint_records(shard.snapshot(checkpoint=True), 1))
    shard.apply(CountingRules(1, ids_limit=100), shard.position)
    shard.absorb_rows([], nothing_else(5))
    records += checkpoint_records(shard.snapshot(checkpoint=True), 1)
    assert [one.offset for one in recovered(*records).resume(5).ids] == [2, 3]


def test_a_group_that_begins_anew_goes_before_what_zombies_of_the_old_one_write() -> None:
    old = recovered(position(1000, SLOT, 57))
    first = old.writer(1)
    assert first > 57
    assert recovered(position(1000, SLOT, 57), position(1250, SLOT, first)).writer(2) == first + 1
    found = recovered(position(1250, SLOT, first), position(1300, SLOT, 57))
    assert found.position(1250) == 1250
    assert recovered().writer(1) == 1
    assert old.writer(58) == 58


FOREIGN: list[tuple[bytes, bytes]] = [
    (b"", b""),
    (b"hello", b"x"),
    (msgspec.msgpack.encode([2, "cell"]), b"x"),
    (msgspec.msgpack.encode([2, "cell", 0, SLOT, KEY, 1]), msgspec.msgpack.encode([1, 2])),
    (msgspec.msgpack.encode([2, "cell", 0, SLOT, KEY, 1]), msgspec.msgpack.encode([2**63] * 5)),
    (msgspec.msgpack.encode([2, "cell", 0, SLOT, "no key", 1]), msgspec.msgpack.encode([1] * 5)),
    (msgspec.msgpack.encode([2, "celx", 0, SLOT, KEY, 1]), msgspec.msgpack.encode([1] * 5)),
    (msgspec.msgpack.encode([2, "position", 9, 1]), b"\xc1"),
    (
        msgspec.msgpack.encode([2, "position", 10, 1]),
        msgspec.msgpack.encode([0, 0, b"{"] + [None] * 4),
    ),
    (msgspec.msgpack.encode([2, "id", 0, 1, 0, "x"]), msgspec.msgpack.encode("log_ms")),
    (msgspec.msgpack.encode([2, "members", 0, 1, 0, 0]), b"not whole"),
    (b"\x96\x02\xa4cell\x00\x00\xa1\xff\x01", msgspec.msgpack.encode([1] * 5)),
]


@pytest.mark.parametrize("record", FOREIGN, ids=[str(n) for n in range(len(FOREIGN))])
def test_a_record_that_tally_never_writes_is_told_to_the_operator(
    record: tuple[bytes, bytes],
) -> None:
    found = recovered(position(10, SLOT, 1), record)
    with pytest.raises(OperatorError, match=r"partition 3|shard 3"):
        found.resume(found.position(None) or 0)


def test_a_filter_that_claims_more_members_than_its_bits_takes_no_memory() -> None:
    where = [
        0,
        0,
        CountingRules().bytes,
        None,
        None,
        None,
        "r",
        0,
        None,
        {},
        [["a", 0, 0.1, 10**15]],
    ]
    found = recovered(
        (msgspec.msgpack.encode([2, "position", 9, 1]), msgspec.msgpack.encode(where)),
        (msgspec.msgpack.encode([2, "filter", 0, "a", 0, 0.1, 1, 10**15, 0, 1]), bytes(100)),
    )
    with pytest.raises(OperatorError, match="partition 3"):
        found.resume(9)
