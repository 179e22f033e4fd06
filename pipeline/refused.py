"""Refused places: which dead letters may still be retried, and which were. Pure.

A retry is counted once, and only if the place it names was refused: a build whose decoder has been
mended counts the original record and skips the retry. So the places of refused rows are remembered,
the newest of them, in log order; and for each the offset of the record that retried it.

What is remembered are facts of the log, the same whoever writes them down: a place was refused; it
was retried by the record at an offset. A fact at or past the position has not happened
yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.ids import Place

PLACES_MAX = 100_000
"""How many refused places a partition remembers."""

NOT_RETRIED = -1

WHOLE_RECORD = -1
"""The row of a frame that could not be read, which is not its first row."""


class RefusedFact(NamedTuple):
    """The row at a place was refused or, with `retried_at` an offset, retried by that record.

    The log time tells a place from the same one in another log.
    """

    offset: int
    row: int
    timestamp_ms: int
    retried_at: int = NOT_RETRIED


RefusedPlace = tuple[int, int, int]
"""Offset, row and log time."""


class RefusedPlaces:
    """The newest refused places of one partition, in log order."""

    def __init__(self, facts: Iterable[RefusedFact] = (), limit: int = PLACES_MAX) -> None:
        """Begin with recovered facts, in any order; the changelog has them already."""
        known = sorted(facts)
        self._limit = limit
        self._retried_at = {one[:3]: one.retried_at for one in known}
        self._unsaved: list[RefusedFact] = []
        self._forgotten: list[RefusedFact] = []

    def __len__(self) -> int:
        return len(self._retried_at)

    def __iter__(self) -> Iterator[RefusedFact]:
        return (RefusedFact(*place, at) for place, at in self._retried_at.items())

    def refuse(self, place: RefusedPlace) -> None:
        """Remember a place. They come in log order."""
        if place in self._retried_at:
            return
        self._retried_at[place] = NOT_RETRIED
        self._unsaved.append(RefusedFact(*place))
        while len(self._retried_at) > self._limit:
            oldest = next(iter(self._retried_at))
            retried_at = self._retried_at.pop(oldest)
            self._forgotten.append(RefusedFact(*oldest, retried_at))

    def retry(self, place: RefusedPlace, at_offset: int) -> bool:
        """Whether the record at an offset may count in a refused row's stead. Remembers it.

        A frame asks once for each of its rows, and gets the same answer. A record that could not be
        read at all may be retried as one event, too.
        """
        offset, row, timestamp_ms = place
        if row == 0 and place not in self._retried_at:
            place = (offset, WHOLE_RECORD, timestamp_ms)
        retried_at = self._retried_at.get(place)
        if retried_at == NOT_RETRIED:
            self._retried_at[place] = at_offset
            self._unsaved.append(RefusedFact(*place, at_offset))
            return True
        return retried_at == at_offset

    def first_place(self) -> Place | None:
        """The oldest place that is remembered."""
        oldest = next(iter(self._retried_at), None)
        return None if oldest is None else oldest[:2]

    def unsaved(self) -> list[RefusedFact]:
        """What the changelog does not have yet, in log order."""
        return list(self._unsaved)

    def forgotten(self) -> list[RefusedFact]:
        """What was forgotten and may still be in the changelog."""
        return list(self._forgotten)

    def confirm(self, saved: int, forgotten: int) -> None:
        """The changelog has the first `saved` facts, and not the first `forgotten` any more."""
        del self._unsaved[:saved]
        del self._forgotten[:forgotten]


def facts_at(
    facts: Iterable[RefusedFact], first: Place | None, position: int
) -> Iterable[RefusedFact]:
    """The facts that hold at a position whose oldest remembered place is `first`."""
    if first is None:
        return ()
    return [
        one
        for one in facts
        if first <= one[:2] and one.offset < position and one.retried_at < position
    ]
