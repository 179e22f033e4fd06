"""Compares a build in ClickHouse with its ledger, and the ledger with the log's offsets.

Cheap: nothing of the log is read but where the ledger ends before the flushed position. The log
itself is read by pipeline/reconcile/log_slots.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from pipeline.reconcile.compare import chain, compared_slots, slot_differences, unowned
from pipeline.reconcile.compared import Difference, Owner, Reconciled, SlotOf
from pipeline.reconcile.grains import (
    GRAINS,
    GrainSums,
    day_ledgers,
    grain_differences,
    is_settled,
    strangers,
)
from pipeline.reconcile.kept import DAY_MS, kept_since_ms, logs_ms
from pipeline.slots import SLOT_MS, incarnation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.clock import Clock
    from pipeline.ledger import Entry
    from pipeline.reconcile.compared import CellSums, Flushed
    from pipeline.reconcile.log_places import Places
    from pipeline.reconcile.stored import Stored
    from pipeline.rollup.retention import Grain

AGAINST_LEDGER = "ledger"

Span = tuple[int, int]
"""From a slot up to, not including, another; in milliseconds since 1970."""


@dataclass(slots=True)
class Scope:
    """What there is to compare: owners, and the slots from which on minutes are complete.

    `begins` has the first offset that the log has of these slots, of each shard that was counted
    from one log: what is in the log before a later incarnation was counted by those before it.
    `rolled_since_ms` tells from when on a coarser grain is complete where it is rolled up,
    `first_incarnations` under which the build began to count each shard, 0 where it is not told.
    """

    flushed: Mapping[Owner, Flushed]
    since_ms: int
    until_ms: int
    begins: Mapping[int, int] = field(default_factory=dict)
    rolled_since_ms: Mapping[Grain, int] = field(default_factory=dict)
    first_incarnations: tuple[int, ...] = ()

    def newest(self) -> dict[int, Owner]:
        """Who counts each shard now: the greatest incarnation."""
        owners = sorted(self.flushed, key=lambda owner: incarnation_of(owner.replica))
        return {owner.shard: owner for owner in owners}

    def is_first(self, owner: Owner) -> bool:
        """Whether it has counted its shard from the build's beginning."""
        known = self.first_incarnations
        first = known[owner.shard] if owner.shard < len(known) else 0
        return incarnation_of(owner.replica) == first

    def days(self) -> list[Span]:
        """Every day of it, the last one up to the end."""
        first = self.since_ms - self.since_ms % DAY_MS
        return [
            (max(day_ms, self.since_ms), min(day_ms + DAY_MS, self.until_ms))
            for day_ms in range(first, self.until_ms, DAY_MS)
        ]

    def is_over(self, span: Span) -> bool:
        """Whether a span is a whole day that is over in every shard, so that it cannot change."""
        start_ms, end_ms = span
        is_whole = start_ms % DAY_MS == 0 and end_ms == start_ms + DAY_MS
        return is_whole and end_ms <= min(logs_ms(self.flushed).values(), default=0)


@dataclass(slots=True)
class Spanned:
    """What came of a span: the last offset compared in each shard, and what differs."""

    through: dict[int, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)


class Reconciler:
    """Compares one build. Methods block, and raise TryAgainError when a server is away."""

    def __init__(self, stored: Stored, places: Places, build: int, clock: Clock) -> None:
        self._stored = stored
        self._places = places
        self._build = build
        self._clock = clock

    def scope(self) -> Scope:
        """What there is to compare now."""
        flushed = self._stored.flushed()
        reached_ms = logs_ms(flushed).values()
        aged_ms = min([*reached_ms, self._clock.now_ms()])
        kept = self._stored.retention()
        since_ms = max(kept_since_ms(kept, aged_ms), self._stored.counts_from_ms())
        until_ms = max(reached_ms, default=0) // SLOT_MS * SLOT_MS + SLOT_MS
        scope = Scope(flushed, since_ms, until_ms)
        scope.rolled_since_ms = {grain: kept_since_ms(kept, aged_ms, grain) for grain in GRAINS}
        scope.first_incarnations = self._stored.first_incarnations()
        of_one_log = sorted(at for at, one in scope.newest().items() if scope.is_first(one))
        scope.begins = self._places.first_since(of_one_log, since_ms)
        # Minutes that are kept for ever are asked for from the first day on that ClickHouse or the
        # log has something of, not from 1970.
        first_day_ms = self._stored.first_ms() // DAY_MS * DAY_MS
        if first_day_ms > since_ms and scope.begins == self._places.first_since(
            of_one_log, first_day_ms
        ):
            scope.since_ms = first_day_ms
        return scope

    def spans(self, scope: Scope, spans: Iterable[Span]) -> Reconciled:
        """Compare spans of a scope, and record what came of them.

        Each span is of one day. Days that are `unsettled` have to be compared as a whole.
        """
        began_s = self._clock.monotonic_s()
        done = Reconciled(self._build, checked_at_ms=self._clock.now_ms())
        standing = self._stored.standing(AGAINST_LEDGER)
        results = {one: (-1, 0, "") for one in standing if is_gone(one[1], scope)}
        for span in spans:
            found = self.span(scope, span)
            done.through.update(found.through)
            done.differences += found.differences
            results.update(by_day(scope, span, found, standing))
        self._stored.store(AGAINST_LEDGER, results, done.checked_at_ms)
        done.took_s = self._clock.monotonic_s() - began_s
        return done

    def unsettled(self) -> set[date]:
        """Days that differed when they were last looked at."""
        return {day for _, day in self._stored.standing(AGAINST_LEDGER)}

    def span(self, scope: Scope, span: Span) -> Spanned:
        """Compare one span of slots: entries first, cells last."""
        entries = self._stored.entries(*span)
        cells = self._stored.cells(*span)
        found, newest = Spanned(), scope.newest()
        agreeing: list[SlotOf] = []
        for key in compared_slots(scope.flushed, entries, cells):
            differences = list(slot_differences(key, entries.get(key), cells.get(key)))
            found.differences += differences
            agreeing += [] if differences else [key]
            if key in entries and newest[key.shard] == key.owner:
                through = found.through.get(key.shard, -1)
                found.through[key.shard] = max(through, entries[key].through)
        found.differences += unowned(scope.flushed, cells)
        found.differences += self._chains(scope, span, entries)
        if scope.is_over(span):
            ledgers = day_ledgers(scope.flushed, entries, cells, agreeing)
            found.differences += self._coarser(scope, span[0], ledgers, cells)
        return found

    def _coarser(
        self,
        scope: Scope,
        day_ms: int,
        ledgers: Mapping[Owner, list[Entry]],
        cells: Mapping[SlotOf, CellSums],
    ) -> Iterator[Difference]:
        """Where hours or days are not what the ledger of a day adds up to.

        Views are asked only where what is rolled up does not settle it: they group by cell.
        """
        day = datetime.fromtimestamp(day_ms / 1000, UTC).date()
        rolled_up_ms = self._stored.rolled_up_ms()
        over = {owner for owner, at_ms in rolled_up_ms.items() if at_ms >= day_ms + DAY_MS}
        final = frozenset(one for one in ledgers if _named(one) in over)
        rolled = {grain: self._stored.rolled(grain, day) for grain in GRAINS}
        if all(is_settled(rolled[grain], ledgers, scope.flushed) for grain in GRAINS):
            return
        for grain in GRAINS:
            sums = GrainSums(
                grain,
                self._stored.merged(grain, day),
                rolled[grain],
                final if day_ms >= scope.rolled_since_ms[grain] else frozenset(),
            )
            yield from grain_differences(day_ms, sums, ledgers)
            yield from strangers(day_ms, sums, scope.flushed, cells)

    def _chains(
        self, scope: Scope, span: Span, entries: Mapping[SlotOf, Entry]
    ) -> Iterator[Difference]:
        """Where the ledger has not every offset of the log."""
        newest = scope.newest()
        before = self._stored.reached(scope.since_ms, span[0]) if span[0] > scope.since_ms else {}
        by_owner: dict[Owner, list[tuple[SlotOf, Entry]]] = {one: [] for one in scope.flushed}
        for key in sorted(entries):
            if key.owner in by_owner:
                by_owner[key.owner].append((key, entries[key]))
        for owner, found in by_owner.items():
            is_newest = newest[owner.shard] == owner
            begin = scope.begins.get(owner.shard) if is_newest else None
            chained = chain(found, before.get(owner), begin)
            yield from chained.differences
            if is_newest and span[1] >= scope.until_ms:
                yield from self._end(owner, scope.flushed[owner], chained.reached, begin)

    def _end(
        self, owner: Owner, flushed: Flushed, reached: int | None, begin: int | None
    ) -> Iterator[Difference]:
        """A record that was flushed, by its position, and that no entry has."""
        start = begin if reached is None else reached + 1
        if start is None or start > flushed.through:
            return
        missed = self._places.first_record(owner.shard, start, flushed.through + 1)
        if missed is not None:
            slot_ms = flushed.log_ms // SLOT_MS * SLOT_MS
            last = -1 if reached is None else reached
            yield Difference(owner.shard, slot_ms, "last offset", ledger=last, log=flushed.through)


def by_day(
    scope: Scope, span: Span, found: Spanned, standing: set[tuple[int, date]]
) -> dict[tuple[int, date], tuple[int, int, str]]:
    """What came of a span of one day, by shard; also of those in which it differed before."""
    day = datetime.fromtimestamp(span[0] / 1000, UTC).date()
    counts = Counter(one.shard for one in found.differences)
    examples = {one.shard: one.text() for one in reversed(found.differences)}
    return {
        (shard, day): (found.through.get(shard, -1), counts[shard], examples.get(shard, ""))
        for shard in {*scope.newest(), *counts, *(one for one, at in standing if at == day)}
    }


def is_gone(day: date, scope: Scope) -> bool:
    """Whether nothing of a day can be compared any more."""
    return day_ms(day) + DAY_MS <= scope.since_ms


def _named(owner: Owner) -> Owner:
    """As rollups know it: whatever its incarnation."""
    return Owner(owner.replica.partition("~")[0], owner.shard)


def day_ms(day: date) -> int:
    """When a day begins, in milliseconds since 1970."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
