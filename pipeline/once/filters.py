"""Members kept in Bloom filters, and how the changelog has these. Pure.

What a filter adds is numbered. A checkpoint writes the keys that were added since the last one, by
their numbers, and now and then the whole filter instead: when as much was written by numbers as it
has bytes. A position says how many were added, so recovery takes the fullest whole filter that is
not past it, and adds what is missing by numbers. All of that is true whoever wrote it, and more of
it than a position needs is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.once.facts import KEY_BYTES, halves
from sketches.bloom import GrowingFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WHOLE_BYTES_MIN = 65_536
"""So many bytes are written by numbers before a whole filter is, however small that is."""


class FilterName(NamedTuple):
    """A family's filter since the rules of an offset, with the error that they state."""

    family: str
    since: int
    error: float


class FilterPart(NamedTuple):
    """What one record of the changelog has of a filter, and its key.

    Of keys added, `number` is that of the first, and there are no `parts`; of a whole filter with
    `number` members it is one of so many.
    """

    name: FilterName
    writer: int
    number: int
    part: int
    parts: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class FilterSnapshot:
    """What a checkpoint writes of a filter: keys added from a number on, or the whole of it."""

    name: FilterName
    first: int
    filled: int
    added: bytes
    whole: bytes | None


@dataclass(slots=True)
class MemberFilter:
    """One family's members. Not one of them is ever taken back."""

    name: FilterName
    filter: GrowingFilter
    saved: int = 0
    """Up to which number the changelog has everything."""
    written_bytes: int = 0
    """How much it has by numbers."""
    keys: list[bytes] = field(default_factory=list)
    """Under which keys it has something."""
    _unsaved: list[bytes] = field(default_factory=list)

    def add(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """Add pairs one after the other; True for each that is taken for a new one."""
        added = self.filter.add(*halves(keys))
        self._unsaved += [keys[row] for row in np.flatnonzero(added).tolist()]
        return added

    def snapshot(self) -> FilterSnapshot:
        """A copy of what the changelog lacks."""
        added = b"".join(self._unsaved)
        bound = max(WHOLE_BYTES_MIN, self.filter.size_bytes)
        whole = self.filter.to_bytes() if self.written_bytes + len(added) > bound else None
        return FilterSnapshot(self.name, self.saved, self.filter.filled, added, whole)

    def confirm(self, stored: FilterSnapshot, keys: Sequence[bytes]) -> list[bytes]:
        """A snapshot is committed under `keys`. Returns the keys that nobody needs any more."""
        del self._unsaved[: stored.filled - stored.first]
        self.saved = stored.filled
        if stored.whole is None:
            self.keys += keys
            self.written_bytes += len(stored.added)
            return []
        unneeded, self.keys = self.keys, list(keys)
        self.written_bytes = 0
        return unneeded

    def begin_anew(self, name: FilterName) -> MemberFilter:
        """The same members under a name of which the changelog has nothing."""
        found = GrowingFilter.from_bytes(
            self.name.error, self.filter.filled, self.filter.to_bytes()
        )
        return MemberFilter(name, found, saved=found.filled, written_bytes=2**62)


def recovered_filter(
    name: FilterName, filled: int, parts: Iterable[FilterPart]
) -> MemberFilter | None:
    """The filter as it was when so many were added; None if parts of it are missing."""
    parts = list(parts)
    whole: dict[tuple[int, int], dict[int, FilterPart]] = {}
    for one in parts:
        if one.parts and one.number <= filled:
            whole.setdefault((one.number, one.writer), {})[one.part] = one
    complete = [
        place
        for place, found in whole.items()
        if found.keys() == set(range(next(iter(found.values())).parts))
    ]
    start, bits = 0, b""
    if complete:
        place = max(complete)
        start, bits = place[0], b"".join(whole[place][n].value for n in range(len(whole[place])))
    found = GrowingFilter.from_bytes(name.error, start, bits)
    added = sorted((one.number, -len(one.value), one.value) for one in parts if not one.parts)
    for number, _, value in added:
        keys = [value[at : at + KEY_BYTES] for at in range(0, len(value), KEY_BYTES)]
        missing = keys[max(found.filled - number, 0) : max(filled - number, 0)]
        if number > found.filled and missing:
            return None
        if missing:
            found.put(*halves(missing))
    if found.filled != filled:
        return None
    written = sum(len(one.value) for one in parts if not one.parts)
    return MemberFilter(name, found, filled, written, [one.key for one in parts])
