"""Ids: a record is counted once, however often it is sent within the horizon. Pure.

A record is a duplicate if its id occurred before it within the horizon, whether that occurrence was
counted or was itself a duplicate. The horizon ends by log time, per family, or by a number of
occurrences in the partition, whichever comes first. So all occurrences are remembered, in log
order, until they are out of it: a build that begins in the middle of the log then decides as one
that began earlier.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.rules import CountingRules

Place = tuple[int, int]
"""Offset and row: where in a partition an increment is."""


class Occurrence(NamedTuple):
    """An id at a place in the log. `id_key` holds counter and id."""

    id_key: str
    offset: int
    row: int
    log_ms: int


def id_key(counter: str, id_: str) -> str:
    """Counter and id as one text. Neither holds a NUL."""
    return f"{counter}\0{id_}"


class SeenIds:
    """The occurrences of ids in one partition that may still matter, in log order.

    At most one more than the rules' limit are held: those before a record, and the record's own.
    """

    def __init__(self, occurrences: Iterable[Occurrence] = ()) -> None:
        """Begin with recovered occurrences, in log order; the changelog has them already."""
        self._occurrences = deque(occurrences)
        self._last = {occurrence.id_key: occurrence for occurrence in self._occurrences}
        self._unsaved = 0
        self._forgotten: list[Occurrence] = []

    def __len__(self) -> int:
        return len(self._occurrences)

    def __iter__(self) -> Iterator[Occurrence]:
        return iter(self._occurrences)

    def claim(
        self,
        occurrence: Occurrence,
        horizon_ms: int,
        rules: CountingRules,
        retried: Place | None = None,
    ) -> bool:
        """Remember an occurrence; True if it is the first within the horizon.

        Occurrences come in log order. One at a place that this one retries is itself.
        """
        oldest_ms = occurrence.log_ms - rules.ids_horizon_ms_max
        while self._occurrences and self._occurrences[0].log_ms < oldest_ms:
            self._forget_oldest()
        while len(self._occurrences) > rules.ids_limit:
            self._forget_oldest()
        earlier = self._last.get(occurrence.id_key)
        self._occurrences.append(occurrence)
        self._last[occurrence.id_key] = occurrence
        self._unsaved += 1
        if earlier is None or earlier[1:3] == retried:
            return True
        return earlier.log_ms < occurrence.log_ms - horizon_ms

    def first_place(self) -> Place | None:
        """The place of the oldest occurrence that is remembered."""
        return self._occurrences[0][1:3] if self._occurrences else None

    def unsaved(self) -> list[Occurrence]:
        """What the changelog does not have yet, in log order."""
        skipped = len(self._occurrences) - self._unsaved
        return list(islice(self._occurrences, max(skipped, 0), None))

    def forgotten(self) -> list[Occurrence]:
        """What was forgotten and may still be in the changelog, in log order."""
        return list(self._forgotten)

    def confirm(self, through: Occurrence | None, forgotten: int) -> None:
        """The changelog has everything up to `through`, and not the first `forgotten` any more."""
        del self._forgotten[:forgotten]
        if through is not None:
            later = 0
            for occurrence in reversed(self._occurrences):
                if occurrence[1:3] <= through[1:3]:
                    break
                later += 1
            self._unsaved = later

    def _forget_oldest(self) -> None:
        oldest = self._occurrences.popleft()
        if self._last.get(oldest.id_key) is oldest:
            del self._last[oldest.id_key]
        self._forgotten.append(oldest)
