"""Distinct members: which registers rose and are not in ClickHouse yet. Pure.

Registers are a function of the set of members, and merge by max wherever they are. So they need no
changelog and no guard: before an offset is committed, a flush has confirmed the registers of every
row below it, and rows that were not committed are counted again, by whoever comes next, to the same
registers. What is kept here only saves writing a register twice. It may be forgotten at any time,
and is when it grows past its bound.

A cell knows its counter, region and window, and so which registers its members are for. That is
looked up once per cell and fetch; for each member there is only its hash and a look at a register.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.counter_numbers import CounterNumbers
from pipeline.known_registers import DAY_MS, KnownRegisters
from pipeline.registers_of import SLOT, Kept, RegistersOf
from sketches.hashing import hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.known_registers import Raised
    from pipeline.rules import CountingRules, FamilyRules
    from pipeline.summaries import CellMembers

    KeptOf = Callable[[FamilyRules], Kept]

__all__ = ["DAY_MS", "TREND_PRECISION", "DistinctSnapshot", "RegistersOf", "ShardDistinct"]

TREND_PRECISION = 12
"""Of the registers by which trends know who did it, minute by minute: an error of 1.6 %."""


@dataclass(frozen=True, slots=True)
class DistinctSnapshot:
    """What waits to be written, at one moment."""

    parts: list[tuple[KnownRegisters, int]]
    raised: list[Raised]

    def confirm(self) -> None:
        """It is stored. What rose since stays."""
        for known, waited in self.parts:
            del known.waiting[:waited]


class ShardDistinct:
    """The registers of one shard. Not thread-safe: one event loop owns it."""

    def __init__(self) -> None:
        self._names: CounterNumbers | None = None
        self._known: dict[KeptOf, KnownRegisters] = {}
        self._closed: list[KnownRegisters] = []

    def absorb(self, members: CellMembers, slot_ms: int, rules: CountingRules) -> None:
        """Add the members of additions that were counted in cells of one slot."""
        if self._names is None or self._names.is_full or self._names.rules != rules:
            self._names = CounterNumbers(rules)
        known = (
            self._know(_of_windows, self._names, slot_ms - slot_ms % DAY_MS),
            self._know(_of_slots, self._names, slot_ms),
        )
        numbers = self._names.of(members.cells)
        kept = np.any([one.precisions(numbers) > 0 for one in known], axis=0)
        which, texts = members.which, members.texts
        if not kept.all():
            which, texts = which[kept[which]], texts.filter(pa.array(kept[which]))
        hashed = hashes(texts)
        for one in known:
            one.add(numbers, members.cells.windows_ms, which, hashed)

    def snapshot(self) -> DistinctSnapshot:
        """What waits to be written, possibly nothing."""
        known = (*self._closed, *self._known.values())
        waiting = [(one, len(one.waiting)) for one in known if one.waiting]
        return DistinctSnapshot(waiting, [one.raised() for one, _ in waiting])

    def _know(self, kept_of: KeptOf, names: CounterNumbers, since_ms: int) -> KnownRegisters:
        """What is known of these since then; it begins anew where it is full."""
        known = self._known.get(kept_of)
        if known is not None:
            if known.names is names and known.since_ms == since_ms and not known.is_full:
                return known
            known.close()
            self._closed = [one for one in (*self._closed, known) if one.waiting]
        rules = names.rules
        kept = [kept_of(family) for family in (rules.default, *rules.families.values())]
        self._known[kept_of] = KnownRegisters(names, kept, since_ms)
        return self._known[kept_of]


def _of_windows(family: FamilyRules) -> Kept:
    return Kept(family.distinct_precision, family.distinct_grains, family.distinct_window_ms)


def _of_slots(family: FamilyRules) -> Kept:
    """Their window is the slot, whenever the rows happened: it never changes once it is over."""
    return Kept(TREND_PRECISION if family.trends.by_members else 0, (SLOT,), 0)
