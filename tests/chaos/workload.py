"""Increments of every sort, made up from a seed. Knows nothing of Tally. Pure."""

import json
import random

from tests.kit.truth.record import Document, Refusable

FAMILIES = ("likes", "views")
REGIONS = ("eu", "us", "asia", "")
KEYS = 8
WORDS = 300
"""Counters of the sketched family: more than a row of its sketches has buckets."""

POSTS = 4
PEOPLE = 60
"""Of the family that counts a member once: so few that nearly everybody comes again."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LATE_MS_MAX = 20 * HOUR_MS
TOO_LATE_MS = 80 * HOUR_MS
"""By any rules there are in chaos, which allow three days, though the log's clock be behind."""

AHEAD_MS_MAX = MINUTE_MS
"""Five minutes are allowed, of which clocks that are wrong may take some."""

LONG = 400
"""Characters that make a refused record longer than what a table has of it."""


def refusables(now_ms: int) -> tuple[tuple[Document, str], ...]:
    """Of each sort of what must be refused: its fields, and words that the reason must have."""
    return (
        ({"delta": 1}, "counter: missing"),
        ({"counter": "likes:key-0", "delta": 0}, "delta: 0 is not allowed"),
        ({"counter": "hearts:post-0"}, "member: missing"),
        ({"counter": "hearts:post-0", "member": "m-0", "delta": 2}, "delta: neither 1 nor -1"),
        ({"counter": "stock:seat-0", "delta": 5}, "its family is strict"),
        ({"counter": "likes:key-0", "at": now_ms - TOO_LATE_MS}, "before log time, too late"),
        ({"counter": "likes:key-0", "at": now_ms + 2 * HOUR_MS}, "ahead of log time"),
    )


class Workload:
    """One sender's increments: skewed, late, early, with removals; some with ids, some without."""

    def __init__(self, seed: int, name: str, first: int, *, all_have_marks: bool) -> None:
        """`all_have_marks`: each can be told from all others in the log, by an id or a member."""
        self._chance = random.Random(f"{seed} {name} {first}")
        self._seed = seed
        self._name = name
        self._all_have_marks = all_have_marks

    def document(self, number: int, now_ms: int, *, needs_id: bool = False) -> Document:
        """One that must be counted."""
        chance = self._chance
        kind = chance.random()
        if kind < 0.15:
            return self._word(number, now_ms, needs_id=needs_id)
        if kind < 0.3:
            return self._heart(number, now_ms, needs_id=needs_id)
        key = int(chance.paretovariate(0.8)) % KEYS
        document: Document = {
            "counter": f"{chance.choice(FAMILIES)}:key-{key}",
            "delta": -chance.randint(1, 3) if chance.random() < 0.15 else chance.randint(1, 9),
            "at": now_ms - self._ago_ms(),
            "region": chance.choice(REGIONS),
        }
        mark = self._mark(number)
        if needs_id or chance.random() < 0.5:
            document["id"] = mark
            if chance.random() < 0.7:
                document["member"] = f"m-{chance.randrange(200)}"
        elif self._all_have_marks or chance.random() < 0.3:
            document["member"] = f"only-{mark}"
        return document

    def _word(self, number: int, now_ms: int, *, needs_id: bool) -> Document:
        """Of a sketched family, from which nothing is taken away."""
        chance, mark = self._chance, self._mark(number)
        document: Document = {
            "counter": f"words:word-{int(chance.paretovariate(0.5)) % WORDS}",
            "delta": chance.randint(1, 9),
            "at": now_ms - self._ago_ms(),
            "region": chance.choice(REGIONS),
        }
        if needs_id or chance.random() < 0.5:
            return {**document, "id": mark}
        if self._all_have_marks or chance.random() < 0.3:
            document["member"] = f"only-{mark}"
        return document

    def _heart(self, number: int, now_ms: int, *, needs_id: bool) -> Document:
        """Put in or taken back by somebody who has probably done so before.

        Only who hears of everything may send it without an id: members tell nothing apart here.
        """
        chance = self._chance
        document: Document = {
            "counter": f"hearts:post-{int(chance.paretovariate(0.8)) % POSTS}",
            "delta": -1 if chance.random() < 0.25 else 1,
            "at": now_ms - self._ago_ms(),
            "region": chance.choice(REGIONS),
            "member": f"m-{chance.randrange(PEOPLE)}",
        }
        if needs_id or self._all_have_marks or chance.random() < 0.3:
            document["id"] = self._mark(number)
        return document

    def _mark(self, number: int) -> str:
        return f"{self._seed}-{self._name}-{number}"

    def refusable(self, number: int, now_ms: int) -> Refusable:
        """One that must be refused, unlike any other; some are more than a table keeps of them."""
        fields, why = self._chance.choice(refusables(now_ms))
        more = {"more": "ü" * LONG} if self._chance.random() < 0.3 else {}
        document = {"note": self._mark(number), **fields, **more}
        return Refusable(json.dumps(document, ensure_ascii=False), why)

    def _ago_ms(self) -> int:
        kind = self._chance.random()
        if kind < 0.05:
            return self._chance.randrange(LATE_MS_MAX)
        if kind < 0.1:
            return -self._chance.randrange(AHEAD_MS_MAX)
        return self._chance.randrange(3 * MINUTE_MS)
