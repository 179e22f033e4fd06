"""What every right count of the race's events is, and whether a contestant's is one.

Nothing here imports the program under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks._kit import WrongAnswerError
from benchmarks.race.contract import count_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks._events import Event

UNIQUES_OFF = 0.15
UNIQUES_OFF_LEAST = 5
"""An estimate may be off by so much: seven times the standard error that this pipeline promises, so
that chance fails nobody, and no figure that means something else passes."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Per counter and minute: additions less removals, and how many members added something."""

    events: int
    counts: Mapping[str, int]
    members: Mapping[str, int]

    def check(self, name: str, found: Mapping[str, Any], *, is_counting: bool) -> None:
        """Raises WrongAnswerError, with one difference, unless the result is right.

        A contestant that counts must hand in every count; estimates are checked where it has some.
        """
        if not 0 < found["events"] <= self.events or found["seconds"] <= 0:
            raise WrongAnswerError(
                f"{name}: {found['events']} events in {found['seconds']} s, of {self.events}"
            )
        counts, uniques = found["counts"], found.get("uniques")
        if not is_counting and counts is None:
            return
        self._check_counts(name, counts or {})
        if uniques is not None:
            self._check_uniques(name, uniques)

    def _check_counts(self, name: str, counts: Mapping[str, int]) -> None:
        wrong = [key for key, net in self.counts.items() if counts.get(key) != net]
        wrong += counts.keys() - self.counts.keys()
        if wrong:
            key = wrong[0]
            raise WrongAnswerError(
                f"{name}: {len(wrong)} of {len(self.counts)} counts are wrong, for example {key}: "
                f"{counts.get(key)} instead of {self.counts.get(key)}"
            )

    def _check_uniques(self, name: str, uniques: Mapping[str, float]) -> None:
        for key, members in self.members.items():
            off = abs(uniques.get(key, 0) - members)
            if off > max(UNIQUES_OFF_LEAST, UNIQUES_OFF * members):
                raise WrongAnswerError(
                    f"{name}: {key} had {members} members, not about {uniques.get(key, 0):.0f}"
                )


def truth_of(events: Iterable[Event]) -> Truth:
    """By plain sums and sets."""
    counts: dict[str, int] = {}
    members: dict[str, set[str]] = {}
    number = 0
    for event in events:
        number += 1
        name = count_name(event.counter, event.at)
        counts[name] = counts.get(name, 0) + event.delta
        if event.delta > 0:
            members.setdefault(name, set()).add(event.member)
    return Truth(number, counts, {name: len(found) for name, found in members.items()})
