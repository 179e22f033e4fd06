"""Seeded likes and unlikes with many repeats, and what must come of them. Imports no Tally."""

import random
from collections import Counter
from dataclasses import dataclass, field

REGIONS = ("", "eu", "us")

Like = dict[str, object]
"""An event: counter, delta, member, region."""


@dataclass
class Likes:
    """Who likes what, as sets; nearly everybody clicks more than once."""

    seed: int
    posts: int
    people: int
    inside: set[tuple[str, str]] = field(default_factory=set)
    net: Counter[str] = field(default_factory=Counter)
    by_region: Counter[tuple[str, str]] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    saw: set[str] = field(default_factory=set)
    sent: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def next(self, count: int) -> list[Like]:
        """More of them, in the order in which they are to be sent."""
        return [self._next() for _ in range(count)]

    def seen(self, count: int) -> list[Like]:
        """Views of one page, by many, most of whom come again."""
        people = [f"person-{self._random.randrange(3 * self.people)}" for _ in range(count)]
        self.saw.update(people)
        self.sent += count
        return [
            {"counter": "seen:page", "delta": 1, "member": person, "region": ""}
            for person in people
        ]

    def _next(self) -> Like:
        chance = self._random
        post = min(int(chance.paretovariate(0.6)), self.posts)
        counter, member = f"likes:post-{post}", f"person-{chance.randrange(self.people)}"
        delta, region = chance.choice((1, 1, -1)), chance.choice(REGIONS)
        self._count(counter, member, delta, region)
        return {"counter": counter, "delta": delta, "member": member, "region": region}

    def _count(self, counter: str, member: str, delta: int, region: str) -> None:
        if ((counter, member) in self.inside) == (delta > 0):
            self.repeats[counter] += 1
            return
        (self.inside.add if delta > 0 else self.inside.remove)((counter, member))
        self.net[counter] += delta
        self.by_region[counter, region] += delta

    def expected(self) -> dict[str, int]:
        """How many are in each counter: a sum of deltas, and the size of a set as well."""
        sizes = Counter(counter for counter, _ in self.inside)
        assert +self.net == sizes
        return {counter: self.net[counter] for counter in {*self.net, *self.repeats}}
