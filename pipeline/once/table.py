"""Which members are in, exactly: the newest fact of every pair of counter and member. Pure.

Most facts are in three sorted columns, 24 bytes a pair; the newest are in a dictionary until there
are enough of them to be worth a merge. Rows of a fetch are decided together: after a row its member
is where the row wants it, counted or not, so whether one counts depends on its pair's row before it
alone, and sorting by pair tells that for all of them at once.

A member who was taken back leaves a fact, too. A worker that was replaced may write an old fact
into the changelog at any time, and only a newer one tells that it is old.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from pipeline.once.facts import NEVER, halves, in_order, looked_up, newest, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.once.facts import Facts, Int64Column, Uint64Column

FRESH_MAX = 32_768
"""How many facts the dictionary holds at least before it is merged into the columns."""

_SHARE = 16
"""Or this part of the columns, so that a pair is moved only so often."""


class MemberTable:
    """The newest fact of each pair. Rows come in log order."""

    def __init__(self, facts: Facts) -> None:
        """Begin with recovered facts, in any order, of which the newest of each pair holds."""
        known = newest(facts)
        self._high, self._low = known["high"].copy(), known["low"].copy()
        self._at = known["at"].copy()
        self._fresh: dict[bytes, int] = {}
        self._merged_through = int(self._at.max()) if len(known) else NEVER

    def __len__(self) -> int:
        """How many pairs have a fact; those that are in neither part twice count twice."""
        return len(self._at) + len(self._fresh)

    def flip(self, key: bytes, at: int, since: int) -> bool:
        """Bring one pair to where a row at `at` wants it; False if it is there already.

        Facts before the offset `since` do not hold any more.
        """
        before = self._fresh.get(key)
        if before is None:
            before = int(self._merged(*halves([key]))[0])
        is_in = bool(before & 1) and before >= 2 * since
        if is_in == bool(at & 1):
            return False
        self._fresh[key] = at
        return True

    def flip_many(
        self, keys: Sequence[bytes], at: Int64Column, since: Int64Column
    ) -> NDArray[np.bool_]:
        """`flip` of many rows, one after the other."""
        if not len(keys):
            return np.zeros(0, np.bool_)
        high, low = halves(keys)
        order = np.lexsort((low, high))
        again = np.zeros(len(order), np.bool_)
        again[1:] = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
        firsts = order[~again]
        before = looked_up(self._fresh, [keys[row] for row in firsts.tolist()])
        unknown = before == NEVER
        before[unknown] = self._merged(high[firsts[unknown]], low[firsts[unknown]])
        wants = (at & 1).astype(np.bool_)
        was = np.empty(len(order), np.bool_)
        was[firsts] = (before & 1).astype(np.bool_) & (before >= 2 * since[firsts])
        was[order[1:][again[1:]]] = wants[order[:-1][again[1:]]]
        flipped: NDArray[np.bool_] = wants != was
        # In log order, so that of one pair's flips the last stays.
        self._fresh.update(zip(compress(keys, flipped.tolist()), at[flipped].tolist(), strict=True))
        return flipped

    def merge(self) -> None:
        """Move the newest facts to the others if there are enough of them."""
        if len(self._fresh) <= max(FRESH_MAX, len(self._at) // _SHARE):
            return
        high, low = halves(list(self._fresh))
        at = np.fromiter(self._fresh.values(), np.int64, len(self._fresh))
        order = np.lexsort((low, high))
        high, low, at = high[order], low[order], at[order]
        place = self._place(high, low)
        known = self._holds(place, high, low)
        self._at[place[known]] = at[known]
        new, place = ~known, place[~known]
        self._high = np.insert(self._high, place, high[new])
        self._low = np.insert(self._low, place, low[new])
        self._at = np.insert(self._at, place, at[new])
        self._merged_through = max(self._merged_through, int(at.max()))
        self._fresh = {}

    def facts_since(self, offset: int) -> Facts:
        """A copy of the facts from an offset on, in order; older ones of the same pairs may be
        among them."""
        keys, values = list(self._fresh), list(self._fresh.values())
        at = np.array(values, np.int64)
        found = packed(*halves(keys), at)[at >= 2 * offset]
        if self._merged_through >= 2 * offset:
            chosen = self._at >= 2 * offset
            merged = packed(self._high[chosen], self._low[chosen], self._at[chosen])
            found = np.concatenate([merged, found])
        return in_order(found)

    def _merged(self, high: Uint64Column, low: Uint64Column) -> Int64Column:
        """What the columns have of each pair, NEVER for those that are not there."""
        place = self._place(high, low)
        known = self._holds(place, high, low)
        at = np.full(len(high), NEVER, np.int64)
        at[known] = self._at[place[known]]
        return at

    def _place(self, high: Uint64Column, low: Uint64Column) -> Int64Column:
        """Where each pair is in the columns, or would be."""
        place = np.searchsorted(self._high, high)
        behind = self._is_before(place, high, low)
        while behind.any():  # Only where the first halves of different pairs are the same.
            place[behind] += 1
            behind = self._is_before(place, high, low)
        return place

    def _is_before(
        self, place: Int64Column, high: Uint64Column, low: Uint64Column
    ) -> NDArray[np.bool_]:
        inside = place < len(self._high)
        found = np.zeros(len(place), np.bool_)
        at = place[inside]
        found[inside] = (self._high[at] == high[inside]) & (self._low[at] < low[inside])
        return found

    def _holds(
        self, place: Int64Column, high: Uint64Column, low: Uint64Column
    ) -> NDArray[np.bool_]:
        inside = place < len(self._high)
        found = np.zeros(len(place), np.bool_)
        at = place[inside]
        found[inside] = (self._high[at] == high[inside]) & (self._low[at] == low[inside])
        return found
