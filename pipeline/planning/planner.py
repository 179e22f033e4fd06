"""Decides into how many shards hot counters are split. Pure: no clock, no I/O.

Quick to split, slow to merge. A shard that takes more than the threshold is split at once into as
many as bring each to half of it; a counter whose shards take less than a quarter for a whole
cooling time is halved. Between the two nothing changes, so noise moves nothing. Whoever halves and
has to split again soon after waits twice as long the next time.

All a decision needs beside the producers' reports is the plan itself, which is read from the log
before each: so a new leader goes on where the last one was, and two at once decide the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.planning.needed import shards_for
from pipeline.planning.plan import Split, fixed_shards
from pipeline.planning.recent import RecentReports
from pipeline.sharding import counter_partition

if TYPE_CHECKING:
    from pipeline.planning.load import LoadReport
    from pipeline.planning.plan import Hint, PlanRecords
    from pipeline.planning.recent import Load
    from schemas.settings import Settings

COUNTERS_MAX = 1_000
"""How many counters are split at a time: all producers read them all."""

QUIET = 0.25
"""Of the threshold: below it a shard is quiet."""

TRIVIAL = 0.05
"""Of the threshold: a counter below it is not what makes deliveries slow."""

SHARE_MIN = 0.2
"""Of all rows: a counter below it is not what makes deliveries slow."""

FEEDBACK_MS = 10_000
"""How long a change is given to show in deliveries before the next one."""

PATIENCE_MAX = 16

WHOLE_MAX = 2 * PATIENCE_MAX * COUNTERS_MAX
"""How many counters that are whole again are remembered: as many as can become so by being
quiet for as long as that lasts. Others may change the plan as often as they like."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to split and when to merge: see the settings of these names."""

    rate_max: float
    delivery_p99_ms: float
    cool_ms: float

    @classmethod
    def of(cls, settings: Settings) -> Thresholds:
        """Those that were set."""
        return cls(
            settings.shard_rate_max, settings.shard_delivery_p99_ms, settings.shard_cool_s * 1000
        )


@dataclass(slots=True)
class _Watched:
    """A counter that is or was split. Times are of when it was seen, in ms; 0 is never."""

    planned: int
    changed_ms: int = 0
    warm_ms: int = 0
    halved_ms: int = 0
    patience: int = 1

    def see(self, planned: int, now_ms: int, cool_ms: float) -> None:
        """Notice a change of the plan, whoever made it. A clock that was set back counts anew."""
        self.changed_ms = min(self.changed_ms, now_ms)
        self.warm_ms = min(self.warm_ms, now_ms)
        self.halved_ms = min(self.halved_ms, now_ms)
        if planned == self.planned:
            return
        if planned < self.planned:
            self.halved_ms = now_ms
        elif self.halved_ms:
            soon = now_ms - self.halved_ms < 2 * cool_ms * self.patience
            self.patience = min(2 * self.patience, PATIENCE_MAX) if soon else 1
        self.planned, self.changed_ms = planned, now_ms

    def is_over(self, now_ms: int, cool_ms: float) -> bool:
        """Whether what is remembered of a counter that is whole again has no more use."""
        return self.planned == 1 and now_ms - self.changed_ms > 2 * PATIENCE_MAX * cool_ms


class Planner:
    """Remembers reports for seconds, and when counters were changed or warm. Not thread-safe."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._reports = RecentReports()
        self._watched: dict[str, _Watched] = {}

    def add(self, report: LoadReport, now_ms: int) -> None:
        """A producer's report that arrived now."""
        self._reports.add(report, now_ms)

    def load(self, now_ms: int) -> Load:
        """The load by the reports of the last seconds."""
        return self._reports.load(now_ms, self._thresholds.delivery_p99_ms)

    def decide(self, now_ms: int, partitions: int, records: PlanRecords) -> dict[str, Split | None]:
        """The counters whose shards change, with what they change to; None is whole again.

        What was decided but did not get into the log is decided again at the next call.
        """
        load, hints = self.load(now_ms), records.live_hints(now_ms)
        self._see(records, now_ms)
        room = COUNTERS_MAX - len(records.splits)
        changes: dict[str, Split | None] = {}
        for counter in self._candidates(load, records):
            split = records.splits.get(counter)
            if fixed_shards(records.rules, counter):
                if split is not None:
                    changes[counter] = None
                continue
            planned = 1 if split is None else split.n
            n, why = self._decide(
                counter, planned, load, hints.get(counter), partitions, now_ms=now_ms
            )
            if split is None and n > 1:
                room -= 1
            if n == planned or (split is None and room < 0):
                continue
            rate = round(load.rates.get(counter, 0.0), 1)
            changes[counter] = Split(n, rate, why, now_ms) if n > 1 else None
        return changes

    def _see(self, records: PlanRecords, now_ms: int) -> None:
        cool_ms = self._thresholds.cool_ms
        for counter, split in records.splits.items():
            if counter not in self._watched:
                # Nothing is known of it, so it is given a whole cooling time.
                self._watched[counter] = _Watched(split.n, now_ms, now_ms)
        for counter, watched in list(self._watched.items()):
            split_now = records.splits.get(counter)
            watched.see(1 if split_now is None else split_now.n, now_ms, cool_ms)
            if watched.is_over(now_ms, cool_ms):
                del self._watched[counter]
        self._forget_whole()

    def _forget_whole(self) -> None:
        """Past the bound, those that were changed longest ago: next time they are merged as soon as
        any other."""
        whole = [counter for counter, watched in self._watched.items() if watched.planned == 1]
        if len(whole) > WHOLE_MAX:
            whole.sort(key=lambda counter: self._watched[counter].changed_ms)
            for counter in whole[: len(whole) - WHOLE_MAX]:
                del self._watched[counter]

    def _candidates(self, load: Load, records: PlanRecords) -> list[str]:
        """Those that may change, the heaviest first: they get the places there are."""
        least = TRIVIAL * self._thresholds.rate_max
        names = {counter for counter, rate in load.rates.items() if rate >= least}
        return sorted(names | records.splits.keys(), key=lambda c: (-load.rates.get(c, 0.0), c))

    def _decide(
        self,
        counter: str,
        planned: int,
        load: Load,
        hint: Hint | None,
        partitions: int,
        *,
        now_ms: int,
    ) -> tuple[int, str]:
        """How many shards the plan should have, and why."""
        asked = 0 if hint is None else hint.n
        n = max(1, min(max(planned, asked), partitions))
        rate, rate_max = load.rates.get(counter, 0.0), self._thresholds.rate_max
        watched = self._watched.get(counter) or _Watched(planned)
        if rate > n * rate_max:
            watched.warm_ms = now_ms
            return max(planned, min(shards_for(rate, rate_max), partitions)), "rate"
        if why := self._why_slow(counter, n, rate, load, partitions):
            watched.warm_ms = now_ms
            waited = now_ms - watched.changed_ms >= FEEDBACK_MS
            return (max(planned, min(2 * n, partitions)) if waited else planned), why
        if rate >= QUIET * n * rate_max:
            watched.warm_ms = now_ms
            return planned, ""
        cool_ms = self._thresholds.cool_ms * watched.patience
        if planned > 1 and now_ms - max(watched.warm_ms, watched.changed_ms) >= cool_ms:
            return min(planned, max(planned // 2, asked)), "quiet"
        return planned, ""

    def _why_slow(self, counter: str, n: int, rate: float, load: Load, partitions: int) -> str:
        """Why a counter is to be spread more although its rate is allowed; "" if it is not."""
        if rate < max(TRIVIAL * self._thresholds.rate_max, SHARE_MIN * load.rate):
            return ""
        if load.retried:
            return "retries"
        used = {counter_partition(counter, shard, partitions) for shard in range(n)}
        return "delivery" if used & load.slow else ""
