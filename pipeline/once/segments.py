"""In which parts the changelog holds facts about members, and which of them are rewritten. Pure.

A checkpoint writes what is new as one segment. Many small ones would make recovery slow and keep
what newer facts have replaced, so a segment also takes in those before it that are not much larger:
there are only ever as many as the number of facts can be doubled, and a fact is rewritten as often.

A segment that was taken in is let go after the commit, by who has rewritten what it held, and by
nobody else. Until then both are there, and both are true.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GROWTH = 2
"""A segment takes in the one before it unless that has more than so many times its facts."""

SPARE_FACTS = 16_384
"""So many facts more than twice those that matter, and all of them are rewritten."""

FROM_THE_START = -(2**61)
"""Before every offset, also of facts that were taken over from another log."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Facts from the offset `first` on, and under which keys the changelog has them."""

    first: int
    facts: int
    keys: tuple[bytes, ...]


@dataclass(slots=True)
class Segments:
    """What the changelog holds for certain. `saved` is the offset up to which it has everything."""

    saved: int = FROM_THE_START
    known: list[Segment] = field(default_factory=list)

    def rewritten_from(self, new: int, alive: int) -> int:
        """From which offset on the next segment holds facts, if `new` facts are not saved yet."""
        if sum(one.facts for one in self.known) + new > 2 * alive + SPARE_FACTS:
            return FROM_THE_START
        first, facts = self.saved, new
        for one in sorted(self.known, key=lambda one: one.first, reverse=True):
            if one.first < first and one.facts > GROWTH * facts:
                break
            first, facts = min(first, one.first), facts + one.facts
        return first

    def replace(self, first: int, segment: Segment | None, saved: int) -> list[bytes]:
        """A segment of all facts from `first` up to `saved` is committed, None if there were none.

        Returns the keys of those that it took in.
        """
        taken_in = [one for one in self.known if one.first >= first]
        self.known = [one for one in self.known if one.first < first]
        if segment is not None:
            self.known.append(segment)
        self.saved = saved
        return [key for one in taken_in for key in one.keys]
