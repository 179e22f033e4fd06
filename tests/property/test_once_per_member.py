"""Members are counted as by a set, however rows are cut, merged, saved and recovered."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import changelog
from pipeline.changelog import member_records
from pipeline.once import segments, table
from pipeline.once.facts import halves, no_facts
from pipeline.once.members import MemberKeys, Members, recovered
from pipeline.once.table import MemberTable

COUNTERS = ("likes:a", "likes:b")
rows = st.lists(
    st.tuples(st.sampled_from(COUNTERS), st.integers(0, 6).map(str), st.sampled_from([1, 1, -1])),
    max_size=60,
)
cuts = st.lists(st.integers(1, 9), min_size=1)


class SetTruth:
    """Who is in, as a set."""

    def __init__(self) -> None:
        self.inside: set[tuple[str, str]] = set()

    def count(self, counter: str, member: str, delta: int) -> bool:
        before = len(self.inside)
        (self.inside.add if delta > 0 else self.inside.discard)((counter, member))
        return len(self.inside) != before


def pieces(size: int, lengths: list[int]) -> Iterator[range]:
    start = turn = 0
    while start < size:
        end = min(start + lengths[turn % len(lengths)], size)
        yield range(start, end)
        start, turn = end, turn + 1


@contextmanager
def few_at_once() -> Iterator[None]:
    with (
        patch.object(table, "FRESH_MAX", 3),
        patch.object(segments, "SPARE_FACTS", 4),
        patch.object(changelog, "FACTS_AT_ONCE", 3),
    ):
        yield


def count(members: Members, log: list[tuple[str, str, int]], part: range) -> list[bool]:
    """By columns where there are several rows, or else one."""
    chosen = [log[row] for row in part]
    if len(part) == 1:
        return [members.count(*chosen[0], part[0])]
    counters, names, deltas = zip(*chosen, strict=True)
    offsets = np.arange(part.start, part.stop)
    found = members.count_many(counters, names, np.array(deltas, np.int64), offsets)
    return list(map(bool, found))


@settings(max_examples=200, deadline=None)
@given(log=rows, lengths=cuts)
def test_rows_count_as_by_a_set_however_they_are_cut(
    log: list[tuple[str, str, int]], lengths: list[int]
) -> None:
    truth = SetTruth()
    with few_at_once():
        members, found = Members(), []
        for part in pieces(len(log), lengths):
            found += count(members, log, part)
            members.snapshot(part.stop)
    assert found == [truth.count(*row) for row in log]


class Changelog:
    """A compacted changelog with checkpoints that may fail, or be torn, at any record."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}
        self.writer = self.segment = 0

    def members(self, position: int) -> Members:
        parts = []
        for key, value in sorted(self.records.items()):
            _, _, _, writer, segment, _ = msgspec.msgpack.decode(key)
            parts.append(((writer, segment), key, value))
        return recovered(parts, position, {})


@settings(max_examples=200, deadline=None)
@given(log=rows, lengths=cuts, fates=st.lists(st.integers(0, 4), min_size=1))
def test_whoever_goes_on_knows_who_was_in_at_the_position(
    log: list[tuple[str, str, int]], lengths: list[int], fates: list[int]
) -> None:
    """A fate: committed; the same and taken over; or torn after so many records and taken over."""
    truth, position, known = SetTruth(), 0, Changelog()
    with few_at_once():
        members, found = Members(), []
        turn = 0
        while position < len(log):
            end = min(position + lengths[turn % len(lengths)], len(log))
            fate = fates[turn % len(fates)] if turn < 50 else 0
            turn += 1
            counted = count(members, log, range(position, end))
            snapshot = members.snapshot(end)
            known.segment += 1
            records = member_records(snapshot, 0, known.writer, known.segment)
            if fate >= 2:
                known.records.update(dict(records[: fate - 2]))
            else:
                known.records.update(dict(records))
                for key in members.confirm(snapshot, MemberKeys(list(dict(records)), {})):
                    del known.records[key]
                found += counted
                position = end
            if fate:
                known.writer += 1
                members = known.members(position)
    assert found == [truth.count(*row) for row in log]


def test_pairs_whose_hashes_begin_alike_are_told_apart() -> None:
    keys = [bytes(8) + number.to_bytes(8, "big") for number in (5, 1, 9, 3)]
    with patch.object(table, "FRESH_MAX", 0):
        found = MemberTable(no_facts())
        at = 2 * np.arange(4) + 1
        since = np.zeros(4, np.int64)
        assert found.flip_many(keys, at, since).all()
        found.merge()
        assert not found.flip_many(keys, at + 8, since).any()
        assert found.flip(bytes(8) + (7).to_bytes(8, "big"), 21, 0)
        found.merge()
        assert found.facts_since(0)["low"].tolist() == [5, 1, 9, 3, 7]
    assert [half.tolist() for half in halves(keys)] == [[0] * 4, [5, 1, 9, 3]]
