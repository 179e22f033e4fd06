"""Which harm comes when: a pure function of the seed, so that a seed plays a schedule again."""

import math
import random
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

WORKERS = 2
WEBS = 2
KILLABLE_SENDERS = 3

LINKS = ("log", "clickhouse", "web")

PAUSE_S = (0.5, 2.3)
"""Between the beginnings of two harms, so that they overlap."""

REPLAY = "replay and swap"
REPLAY_S = 150.0
"""So long a replay is tried again."""

KINDS: dict[str, tuple[float, float]] = {
    **{f"kill {part}": (0.0, 1.0) for part in ("log", "clickhouse", "web", "worker")},
    **{f"stop {part}": (0.5, 6.0) for part in ("log", "clickhouse", "web")},
    # Longer than a worker may be silent, now and then, so that another takes its partitions over.
    "stop worker": (1.0, 25.0),
    **{f"restart {part}": (0.0, 1.0) for part in ("log", "clickhouse", "web", "worker")},
    "kill sender": (0.0, 2.0),
    **{f"cut {link}": (0.0, 0.0) for link in LINKS},
    **{f"tear {link}": (0.0, 0.0) for link in LINKS},
    **{f"delay {link}": (1.0, 6.0) for link in LINKS},
    **{f"stall {link}": (0.5, 8.0) for link in LINKS},
    **{f"fill disk of {part}": (1.0, 6.0) for part in ("log", "clickhouse")},
    "skew clock of log": (2.0, 15.0),
    "skew clock of workers": (2.0, 25.0),
    "skew clock of web": (2.0, 15.0),
    "drop caches": (0.0, 0.0),
    "add partition": (0.0, 0.0),
    "apply rules": (0.0, 0.0),
    "split counter": (0.0, 0.0),
    REPLAY: (REPLAY_S, REPLAY_S),
}
"""What can be done, and for how many seconds, at least and at most."""

IMPOSSIBLE: Mapping[str, Mapping[str, str]] = {
    "embedded": {},
    "kafka": {"skew clock of log": "a Kafka has the machine's own"},
}
"""What cannot be done to a site by the kind of its log, and why."""

AT_MOST = {"add partition": 6, REPLAY: 8}
"""Outside of lulls: partitions stay for ever, and a replay counts all there is again."""

ROUNDS_BETWEEN = {"add partition": 5, REPLAY: 4}
"""So that they come throughout half an hour, and a replay has ended before the next one begins: a
round, in which every other kind comes once, takes about 50 s."""


LULLS_AT_S = (170.0, 770.0, 1370.0)
LULL_S = 120.0
LULL_MORE_S = 240.0
"""In a lull a replay is begun that can come to its end; elsewhere hardly any does. The first one is
over within five minutes; on a busy machine all that follows waits so much longer for the replay."""

LULL_KINDS = ("cut clickhouse", "cut log", "delay clickhouse", "delay log", "drop caches")
"""What is cheap goes on meanwhile, and one worker is killed."""

LULL_PAUSE_S = (8.0, 20.0)
"""A cut ends some steps of a replay, which is then tried again."""

LULL_KILL = "kill worker"


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
    """Harms in the order they begin. Every kind comes in the first round, most of them in all.

    Rounds pause for lulls; without replays among the kinds there are none. A longer schedule begins
    like a shorter one.
    """
    lulls_s = _lulls(seconds, kinds)
    harms = [_put_off(harm, lulls_s) for harm in _rounds(seed, seconds, kinds)]
    for at_s in lulls_s:
        harms.extend(_lull(random.Random(f"lull {seed} {at_s}"), at_s, kinds))
    return sorted((harm for harm in harms if harm.at_s < seconds), key=lambda harm: harm.at_s)


def lull_ends(seconds: float, kinds: Sequence[str] = tuple(KINDS)) -> list[float]:
    """When each lull of such a schedule is over, if its replay is."""
    return [at_s + LULL_S for at_s in _lulls(seconds, kinds) if at_s + LULL_S <= seconds]


def _lulls(seconds: float, kinds: Sequence[str]) -> list[float]:
    return [at_s for at_s in LULLS_AT_S if at_s < seconds and REPLAY in kinds]


def possible(harms: Iterable[Harm], impossible: Container[str]) -> list[Harm]:
    """Without those kinds; what else a seed has comes as it does elsewhere."""
    return [harm for harm in harms if harm.kind not in impossible]


def _put_off(harm: Harm, lulls_s: Iterable[float]) -> Harm:
    at_s = harm.at_s
    for lull_s in lulls_s:
        if at_s >= lull_s:
            at_s += LULL_S
    return replace(harm, at_s=round(at_s, 3))


def _lull(chance: random.Random, begins_s: float, kinds: Sequence[str]) -> Iterator[Harm]:
    """A replay at once, a worker's kill in the midst, and cheap harms all the while."""
    yield replace(_harm(chance, begins_s, REPLAY), for_s=LULL_S + LULL_MORE_S)
    if LULL_KILL in kinds:
        yield _harm(chance, begins_s + LULL_S * chance.uniform(0.2, 0.8), LULL_KILL)
    cheap = [kind for kind in LULL_KINDS if kind in kinds]
    at_s = begins_s + chance.uniform(*LULL_PAUSE_S)
    while cheap and at_s < begins_s + LULL_S:
        yield _harm(chance, at_s, chance.choice(cheap))
        at_s += chance.uniform(*LULL_PAUSE_S)


def _harm(chance: random.Random, at_s: float, kind: str) -> Harm:
    return Harm(
        round(at_s, 3),
        kind,
        chance.randrange(1 << 16),
        round(chance.uniform(*KINDS[kind]), 3),
        round(chance.random(), 3),
    )


def _rounds(seed: int, seconds: float, kinds: Sequence[str]) -> Iterator[Harm]:
    """As if there were no lulls."""
    chance = random.Random(f"chaos {seed}")
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
        harm = _harm(chance, at_s, kind)
        at_s += chance.uniform(*PAUSE_S)
        if rounds % ROUNDS_BETWEEN.get(kind, 1) == 0 and done[kind] < AT_MOST.get(kind, math.inf):
            done[kind] += 1
            yield harm
