"""The members of a shard's counters, of the families that count each of them once. Pure.

`since` has, for a family whose setting was changed, the offset of the rules that changed it: who
was in before does not count as in from there on. The empty name stands for all families that have
no entry of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pipeline.once.facts import FACT, no_facts, pair_key, pair_keys
from pipeline.once.filters import FilterName, MemberFilter
from pipeline.once.segments import FROM_THE_START, Segment, Segments
from pipeline.once.table import MemberTable
from sketches.bloom import GrowingFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column
    from pipeline.once.facts import Facts
    from pipeline.once.filters import FilterSnapshot
    from pipeline.rules import CountingRules, FamilyRules

MEMBER_REASON = 'member: missing, and the family counts once per member (once_per = "member")'
DELTA_REASON = (
    "delta: neither 1 nor -1, and the family counts once per member: 1 puts a member in, "
    "-1 takes one back"
)

TAKE_BACK_REASON = (
    "delta: -1, and the family keeps its members in a filter (once_per_error), out of which none "
    "can be taken"
)


def refusal(family: FamilyRules, delta: int, member: str | None) -> str | None:
    """Why a row of a family that counts once per member cannot be counted."""
    if member is None:
        return MEMBER_REASON
    if delta == -1 and family.once_per_error:
        return TAKE_BACK_REASON
    return DELTA_REASON if delta not in {1, -1} else None


@dataclass(frozen=True, slots=True)
class MembersSnapshot:
    """What a checkpoint writes of members: all facts from the offset `first` on, and filters."""

    position: int
    first: int
    facts: Facts
    filters: tuple[FilterSnapshot, ...] = ()
    gone: tuple[bytes, ...] = ()
    """Keys of filters that no rules ask for any more."""


@dataclass(frozen=True, slots=True)
class MemberKeys:
    """Under which keys the changelog has a snapshot: the facts, and each filter."""

    facts: list[bytes]
    filters: dict[FilterName, list[bytes]]

    def all(self) -> list[bytes]:
        """The keys of both."""
        return [*self.facts, *chain.from_iterable(self.filters.values())]


class Members:
    """Who is in. Rows come in log order; `offset` is that of their record."""

    def __init__(
        self,
        facts: Facts | None = None,
        segments: Segments | None = None,
        since: Mapping[str, int] | None = None,
        filters: Iterable[MemberFilter] = (),
    ) -> None:
        """Begin with recovered facts, which the changelog has in `segments`, and filters."""
        self._table = MemberTable(no_facts() if facts is None else facts)
        self._segments = segments or Segments()
        self.since = dict(since or {})
        self._filters = {one.name: one for one in filters}
        self._gone: list[bytes] = []

    def __len__(self) -> int:
        return len(self._table) + sum(one.filter.filled for one in self._filters.values())

    def filled(self) -> dict[FilterName, int]:
        """How many members each filter has."""
        return {name: one.filter.filled for name, one in self._filters.items()}

    def change(self, before: CountingRules, after: CountingRules, offset: int) -> None:
        """Other rules hold from an offset on: a family that has not counted so begins anew."""
        since = {}
        for name in {"", *self.since, *before.families, *after.families}:
            then, now = (rules.families.get(name, rules.default) for rules in (before, after))
            if now.once_per_member:
                since[name] = self._since(name) if _form(then) == _form(now) else offset
        default = since.pop("", FROM_THE_START)
        self.since = {name: since[name] for name in sorted(since) if since[name] != default}
        if default != FROM_THE_START:
            self.since[""] = default
        for kept in list(self._filters):
            now = after.families.get(kept.family, after.default)
            if _form(now) != (True, kept.error) or kept.since != self._since(kept.family):
                self._gone += self._filters.pop(kept).keys

    def count(self, counter: str, member: str, delta: int, offset: int, error: float = 0.0) -> bool:
        """Whether a row that may count does: an addition of who is out, or a removal of who is in.

        Remembers it. With an `error` the family's members are in a filter.
        """
        family, key = counter.partition(":")[0], pair_key(counter, member)
        if error:
            return bool(self._filter(family, error).add([key])[0])
        return self._table.flip(key, _at(offset, delta), self._since(family))

    def count_many(
        self,
        counters: Sequence[str],
        members: Sequence[str],
        delta: Int64Column,
        offset: Int64Column,
    ) -> NDArray[np.bool_]:
        """`count` of many rows without an error, one after the other."""
        if self.since:
            families = (counter.partition(":")[0] for counter in counters)
            since = np.fromiter(map(self._since, families), np.int64, len(counters))
        else:
            since = np.full(len(counters), FROM_THE_START)
        at = 2 * offset + (delta > 0)
        return self._table.flip_many(pair_keys(counters, members), at, since)

    def add_many(
        self, family: str, error: float, counters: Sequence[str], members: Sequence[str]
    ) -> NDArray[np.bool_]:
        """`count` of many rows of one family with an error, one after the other."""
        return self._filter(family, error).add(pair_keys(counters, members))

    def snapshot(self, position: int) -> MembersSnapshot:
        """A copy of what the changelog lacks at a position, with what is to be rewritten."""
        self._table.merge()
        filters = tuple(one.snapshot() for one in self._filters.values())
        saved = self._segments.saved
        facts = self._table.facts_since(saved)
        if not len(facts):
            return MembersSnapshot(position, position, facts, filters, tuple(self._gone))
        first = self._segments.rewritten_from(len(facts), len(self._table))
        if first < saved:
            facts = self._table.facts_since(first)
        return MembersSnapshot(position, first, facts, filters, tuple(self._gone))

    def confirm(self, stored: MembersSnapshot, keys: MemberKeys) -> list[bytes]:
        """A snapshot is committed under `keys`. Returns the keys that nobody needs any more."""
        unneeded = list(stored.gone)
        del self._gone[: len(stored.gone)]
        for one in stored.filters:
            written = keys.filters.get(one.name, [])
            known = self._filters.get(one.name)
            if known is None:  # Since the snapshot other rules hold. It is still as it was there.
                self._gone += written
            else:
                unneeded += known.confirm(one, written)
        if not len(stored.facts):
            self._segments.saved = stored.position
            return unneeded
        first = int(stored.facts["at"].min()) >> 1
        segment = Segment(first, len(stored.facts), tuple(keys.facts))
        return unneeded + self._segments.replace(stored.first, segment, stored.position)

    def in_other_log(self, position: int) -> Members:
        """The same members for a log that knows nothing of this one, which was at a position.

        What happened there is before the other one's beginning, in its order.
        """
        facts = self.all_facts()
        facts["at"] -= 2 * position

        def before(offset: int) -> int:
            return offset if offset == FROM_THE_START else offset - position

        since = {name: before(at) for name, at in self.since.items()}
        filters = (
            one.begin_anew(name._replace(since=before(name.since)))
            for name, one in self._filters.items()
        )
        return Members(facts, since=since, filters=filters)

    def in_trimmed_log(self) -> Members:
        """The same members for the same log, and nothing of them in the changelog."""
        filters = (one.begin_anew(name) for name, one in self._filters.items())
        return Members(self.all_facts(), since=self.since, filters=filters)

    def all_facts(self) -> Facts:
        """A copy of all that is known."""
        return self._table.facts_since(FROM_THE_START)

    def _filter(self, family: str, error: float) -> MemberFilter:
        name = FilterName(family, self._since(family), error)
        if name not in self._filters:
            self._filters[name] = MemberFilter(name, GrowingFilter(error))
        return self._filters[name]

    def _since(self, family: str) -> int:
        return self.since.get(family, self.since.get("", FROM_THE_START))


def recovered(
    parts: Iterable[tuple[tuple[int, int], bytes, bytes]],
    position: int,
    since: Mapping[str, int],
    filters: Iterable[MemberFilter] = (),
) -> Members:
    """Members as they were at a position; a part has its writer and segment, its key and value.

    Facts at or past the position have not happened yet: an owner that was ahead wrote them.
    """
    found: dict[tuple[int, int], list[tuple[bytes, Facts]]] = {}
    for segment, key, value in parts:
        found.setdefault(segment, []).append((key, np.frombuffer(value, FACT)))
    known = []
    everything = [no_facts()]
    for written in found.values():
        facts = np.concatenate([part for _, part in written])
        everything.append(facts[facts["at"] < 2 * position])
        known.append(
            Segment(int(facts["at"].min()) >> 1, len(facts), tuple(key for key, _ in written))
        )
    return Members(np.concatenate(everything), Segments(position, known), since, filters)


def _at(offset: int, delta: int) -> int:
    return 2 * offset + (delta > 0)


def _form(family: FamilyRules) -> tuple[bool, float]:
    return family.once_per_member, family.once_per_error
