"""Which counters have many shards for little: each shard is one more cell to keep and to read.

Only what somebody said is looked at, a family's fixed number or a hint: what the planner split, it
merges itself. They are told, not changed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.planning.plan import fixed_shards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.planning.plan import Plan

LITTLE = 0.01
"""Of the threshold: below it a shard has next to nothing to do."""

LITTLE_FOR_MS = 600_000
UNHEARD_MS_MAX = 60_000
"""A counter of a fixed family that nobody reports for so long is not looked at any more."""

WATCHED_MAX = 1_000
TOLD_MAX = 100


@dataclass(slots=True)
class _Little:
    since_ms: int
    heard_ms: int


class OverShardedWatch:
    """Since when counters have next to nothing to do. Not thread-safe."""

    def __init__(self, rate_max: float) -> None:
        self._rate_max = rate_max
        self._little: dict[str, _Little] = {}

    def remember(self, counters: Iterable[str], now_ms: int) -> None:
        """What another leader found: it holds on, if these are heard of again."""
        for counter in counters:
            self._little[counter] = _Little(now_ms - LITTLE_FOR_MS, now_ms)

    def see(self, now_ms: int, plan: Plan, rates: Mapping[str, float]) -> dict[str, int]:
        """The load at a moment; the counters that are over-sharded, with how many shards."""
        for counter in rates:
            if fixed_shards(plan.rules, counter) > 1:
                self._look(now_ms, plan, counter, rates[counter])
        for counter, hint in plan.hints.items():
            if hint.n > max(fixed_shards(plan.rules, counter), plan.shards.get(counter, 1)):
                self._look(now_ms, plan, counter, rates.get(counter, 0.0))
        self._little = {
            counter: little
            for counter, little in self._little.items()
            if now_ms - little.heard_ms <= UNHEARD_MS_MAX and plan.shards_of(counter) > 1
        }
        found = [
            counter
            for counter, little in self._little.items()
            if now_ms - little.since_ms >= LITTLE_FOR_MS
        ]
        return {counter: plan.shards_of(counter) for counter in sorted(found)[:TOLD_MAX]}

    def _look(self, now_ms: int, plan: Plan, counter: str, rate: float) -> None:
        n = plan.shards_of(counter)
        if n <= 1 or rate >= LITTLE * n * self._rate_max:
            self._little.pop(counter, None)
        elif counter in self._little:
            self._little[counter].heard_ms = now_ms
        elif len(self._little) < WATCHED_MAX:
            self._little[counter] = _Little(now_ms, now_ms)
