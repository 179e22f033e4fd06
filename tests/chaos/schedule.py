"""Which harm comes when: a pure function of the seed, so that a seed plays a schedule again."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WORKERS = 2
WEBS = 2
KILLABLE_SENDERS = 3

PAUSE_S = (0.6, 2.6)
"""Between the beginnings of two harms, so that they overlap."""

KINDS: dict[str, tuple[float, float]] = {
    **{f"kill {part}": (0.0, 1.0) for part in ("log", "clickhouse", "web", "worker")},
    **{f"stop {part}": (0.5, 6.0) for part in ("log", "clickhouse", "web")},
    # Longer than a worker may be silent, now and then, so that another takes its partitions over.
    "stop worker": (1.0, 25.0),
    **{f"restart {part}": (0.0, 1.0) for part in ("log", "clickhouse", "web", "worker")},
    "kill sender": (0.0, 2.0),
    **{f"cut {link}": (0.0, 0.0) for link in ("log", "clickhouse")},
    **{f"tear {link}": (0.0, 0.0) for link in ("log", "clickhouse")},
    **{f"delay {link}": (1.0, 6.0) for link in ("log", "clickhouse")},
    **{f"stall {link}": (0.5, 8.0) for link in ("log", "clickhouse")},
    **{f"fill disk of {part}": (1.0, 6.0) for part in ("log", "clickhouse")},
    "skew clock of log": (2.0, 15.0),
    "skew clock of workers": (2.0, 25.0),
    "skew clock of web": (2.0, 15.0),
    "drop caches": (0.0, 0.0),
    "add partition": (0.0, 0.0),
    "apply rules": (0.0, 0.0),
    "split counter": (0.0, 0.0),
    "replay and swap": (0.0, 0.0),
}
"""What can be done, and for how many seconds, at least and at most."""

AT_MOST = {"add partition": 6, "replay and swap": 8}
"""Partitions stay for ever, and a replay counts all there is again."""

ROUNDS_BETWEEN = {"add partition": 5, "replay and swap": 4}
"""So that they come throughout half an hour, and a replay has ended before the next one begins: a
round, in which every other kind comes once, takes about 50 s."""


@dataclass(frozen=True, slots=True)
class Harm:
    """One harm: when it begins, what it is, to which of several, for how long, and how much."""

    at_s: float
    kind: str
    number: int
    for_s: float
    amount: float
    """From 0 to 1: how long a delay, how wrong a clock, which rules, which counter."""

    def __str__(self) -> str:
        what = f"{self.at_s:7.1f} s  {self.kind} #{self.number}"
        return f"{what} for {self.for_s:.1f} s ({self.amount:.2f})"


def schedule(seed: int, seconds: float, kinds: Sequence[str] = tuple(KINDS)) -> list[Harm]:
    """Harms in the order they begin. Every kind comes in the first round, most of them in all."""
    chance = random.Random(f"chaos {seed}")
    harms: list[Harm] = []
    done: Counter[str] = Counter()
    rounds = -1
    deck: list[str] = []
    at_s = chance.uniform(*PAUSE_S)
    while at_s < seconds:
        if not deck:
            deck = sorted(kinds)
            chance.shuffle(deck)
            rounds += 1
        kind = deck.pop()
        harm = Harm(
            round(at_s, 3),
            kind,
            chance.randrange(1 << 16),
            round(chance.uniform(*KINDS[kind]), 3),
            round(chance.random(), 3),
        )
        at_s += chance.uniform(*PAUSE_S)
        if rounds % ROUNDS_BETWEEN.get(kind, 1) == 0 and done[kind] < AT_MOST.get(kind, math.inf):
            done[kind] += 1
            harms.append(harm)
    return harms
