"""The changelog holds members in few segments, each rewritten a few times."""

import math

import numpy as np

from pipeline.once.members import MemberKeys, Members, MembersSnapshot


def save(members: Members, position: int) -> MembersSnapshot:
    snapshot = members.snapshot(position)
    members.confirm(snapshot, MemberKeys([f"{position}".encode()], {}))
    return snapshot


def like(members: Members, people: range, offset: int, delta: int = 1) -> None:
    names = [f"person-{one}" for one in people]
    deltas, offsets = np.full(len(names), delta), np.full(len(names), offset)
    members.count_many(["likes:a"] * len(names), names, deltas, offsets)


def test_members_that_come_a_few_at_a_time_are_in_few_segments() -> None:
    members, written, turns, at_once = Members(), 0, 500, 20
    for turn in range(turns):
        like(members, range(turn * at_once, (turn + 1) * at_once), turn)
        written += len(save(members, turn + 1).facts)
        assert len(members._segments.known) <= math.log2(turn + 1) + 2
    assert written <= turns * at_once * (math.log2(turns) + 2)


def test_what_newer_facts_replaced_does_not_stay_for_ever() -> None:
    members, people = Members(), range(100)
    for turn in range(1_000):
        like(members, people, turn, -1 if turn % 2 else 1)
        save(members, turn + 1)
        held = sum(one.facts for one in members._segments.known)
        assert held <= 2 * len(people) + 16_384 + len(people)


def test_a_checkpoint_without_new_members_writes_none() -> None:
    members = Members()
    like(members, range(5), 0)
    assert len(save(members, 1).facts) == 5
    like(members, range(5), 1)
    assert not len(save(members, 2).facts)
    like(members, range(4, 6), 2)
    assert save(members, 3).facts["at"].tolist() == [5]
