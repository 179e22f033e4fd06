"""Where an owner goes on, and when it must not."""

import pytest

from pipeline.errors import OperatorError, ShardRefusedError
from pipeline.strict.owned import Outcome, OwnedPartition, Recovering
from pipeline.strict.strict_topics import Safety, copies_for, partitions_of
from pipeline.strict.taking import LOST_MAX, where_to_go_on


def test_it_goes_on_at_the_committed_offset_or_where_the_log_begins() -> None:
    assert where_to_go_on(0, committed=7, through=9, start=3, end=12) == 7
    assert where_to_go_on(0, committed=None, through=9, start=3, end=12) == 3
    assert where_to_go_on(0, committed=None, through=-1, start=0, end=0) == 0
    assert where_to_go_on(0, committed=12, through=11, start=12, end=12) == 12


def test_commands_that_were_deleted_undecided_are_not_passed_over_in_silence() -> None:
    with pytest.raises(ShardRefusedError, match=r"from offset 7 on was deleted.* reset the off"):
        where_to_go_on(0, committed=7, through=6, start=8, end=12)


def test_nor_where_kafka_forgot_the_offsets_of_who_was_away_for_long() -> None:
    with pytest.raises(ShardRefusedError, match="from offset 11 on was deleted"):
        where_to_go_on(0, committed=None, through=10, start=50, end=60)
    assert where_to_go_on(0, committed=None, through=10, start=11, end=60) == 11
    assert where_to_go_on(0, committed=None, through=-1, start=50, end=60) == 50


def test_a_log_that_lost_its_tail_is_gone_on_with_and_one_made_anew_is_refused() -> None:
    assert where_to_go_on(0, committed=20, through=19, start=0, end=15) == 15
    assert where_to_go_on(0, committed=15, through=LOST_MAX, start=0, end=15) == 15
    with pytest.raises(ShardRefusedError, match="truncated or made anew"):
        where_to_go_on(0, committed=15, through=LOST_MAX + 15, start=0, end=15)


def test_what_is_no_command_or_in_another_partition_is_passed_over_with_a_reason() -> None:
    owned = OwnedPartition(0, 2, b"writer")
    assert owned.take(0, 0, b"nonsense") == (Outcome.UNREADABLE, "not JSON")
    assert owned.take(1, 0, None).outcome is Outcome.UNREADABLE
    found = [
        owned.take(offset, 0, b'{"id": "a", "op": "increment", "counter": "stock:%d"}' % offset)
        for offset in range(2, 20)
    ]
    elsewhere = [one.reason for one in found if one.outcome is Outcome.UNREADABLE]
    assert 0 < len(elsewhere) < len(found)
    assert "belongs in partition 1" in elsewhere[0]


def test_an_owner_forgets_others_records_only_after_its_own() -> None:
    first = OwnedPartition(0, 1, b"first")
    first.take(0, 5, b'{"id": "a", "op": "increment", "counter": "stock:a"}')
    _, records = first.unwritten()
    recovering = Recovering()
    for key, value in records:
        recovering.add(key, value)
    second = recovering.own(0, 1, b"second")
    assert [counter for counter, _ in second.summaries()] == ["stock:a"]
    again = second.take(0, 5, b'{"id": "a", "op": "increment", "counter": "stock:a"}')
    assert again.outcome is Outcome.READ_AGAIN
    assert second.unwritten() == ([], [])
    second.take(1, 6, b'{"id": "b", "op": "decrement", "counter": "stock:a"}')
    counters, written = second.unwritten()
    assert counters == ["stock:a"]
    assert written[0][0] != records[0][0]
    assert second.confirmed(counters) == [(records[0][0], None)]
    assert second.confirmed(counters) == []


@pytest.mark.parametrize(("brokers", "copies"), [(0, 1), (1, 1), (2, 2), (3, 3), (12, 3)])
def test_topics_have_up_to_three_copies(brokers: int, copies: int) -> None:
    assert copies_for(brokers) == copies


def test_fewer_than_two_copies_in_sync_is_told() -> None:
    assert Safety("t", 3, 3, 2, is_synced=False).weakness is None
    for weak in (Safety("t", 3, 3, 1, is_synced=False), Safety("t", 1, 1, 1, is_synced=True)):
        assert f"min.insync.replicas={weak.in_sync_min}" in (weak.weakness or "")


def test_topics_that_do_not_match_are_refused() -> None:
    assert partitions_of({}) == 0
    assert partitions_of({"tally.strict": 4}) == 0
    assert partitions_of({"tally.strict": 4, "tally.strict-changelog": 4}) == 4
    with pytest.raises(OperatorError, match="cannot be grown"):
        partitions_of({"tally.strict": 8, "tally.strict-changelog": 4})


def test_what_others_decided_and_nobody_committed_is_written_down_before_a_commit_covers_it() -> (
    None
):
    """Somebody between has a tombstone of it on the way: the decision would be gone with it."""
    first = OwnedPartition(0, 1, b"first")
    for offset, counter in enumerate((b"a", b"b", b"b")):
        command = b'{"id": "%d", "op": "increment", "counter": "stock:%s"}' % (offset, counter)
        first.take(offset, 5, command)
    _, records = first.unwritten()
    recovering = Recovering()
    for key, value in records:
        recovering.add(key, value)
    second = recovering.own(0, 1, b"second")
    summaries = dict(second.summaries())
    second.adopt(1)
    assert dict(second.summaries()) == summaries, "it can still be read"
    counters, written = second.unwritten()
    assert counters == ["stock:b"], "the other one is covered by a commit"
    assert {key for key, _ in written}.isdisjoint(key for key, _ in records)
    assert [value for _, value in written] == [records[1][1]], "the same state"
    assert second.confirmed(counters) == [(records[1][0], None)]
