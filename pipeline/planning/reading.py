"""The shard plan for people: which counters are split or hinted, their rates, who has too many."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline import topics
from pipeline.control.shard_plan import read_plan
from pipeline.planning.load_topic import load_now
from pipeline.planning.plan import fixed_shards
from pipeline.reads.observed import HotCounter, PlanStatus
from pipeline.sharding import counter_partition

if TYPE_CHECKING:
    from pipeline.planning.plan import Hint, Plan, PlanRecords
    from pipeline.planning.recent import Load
    from schemas.settings import Settings

HOTTEST_MAX = 10


@dataclass(frozen=True, slots=True)
class CounterShards:
    """One counter: `shards` is what producers use, on `partitions`, and `rate` what they send.

    `fixed` is its family's number, 0 for adaptive; `planned` is the leader's, 1 for whole, with
    `why` and when that was decided. `rate` is rows a second in the last seconds; 0 also where no
    producer names the counter among its heaviest.
    """

    counter: str
    shards: int
    partitions: list[int]
    rate: float
    fixed: int
    planned: int
    why: str | None
    planned_at_ms: int | None
    hint: Hint | None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        hint = None if self.hint is None else msgspec.structs.asdict(self.hint)
        return {**asdict(self), "hint": hint}


@dataclass(frozen=True, slots=True)
class ShardsNow:
    """What is planned and sent at one moment."""

    partitions: int
    now_ms: int
    records: PlanRecords
    load: Load

    def of(self, counter: str) -> CounterShards:
        """One counter, whether or not anything is known of it."""
        plan, split = self._plan(), self.records.splits.get(counter)
        n = plan.shards_of(counter)
        return CounterShards(
            counter=counter,
            shards=n,
            partitions=[counter_partition(counter, shard, self.partitions) for shard in range(n)],
            rate=round(self.load.rates.get(counter, 0.0), 1),
            fixed=fixed_shards(self.records.rules, counter),
            planned=1 if split is None else split.n,
            why=None if split is None else split.why,
            planned_at_ms=None if split is None else split.at_ms,
            hint=plan.hints.get(counter),
        )

    def listed(self) -> list[CounterShards]:
        """All that are split or hinted, and the hottest beside them; the most sent first."""
        hinted = self.records.live_hints(self.now_ms)
        names = {*self.records.splits, *hinted, *self._hottest()}
        return sorted(map(self.of, names), key=lambda one: (-one.rate, one.counter))

    def status(self, rate_max: float) -> PlanStatus:
        """In short; a shard should have no more than `rate_max` rows a second."""
        plan, rates = self._plan(), self.load.rates

        def hot(counter: str) -> HotCounter:
            rate = round(rates.get(counter, 0.0), 1)
            return HotCounter(counter, rate, plan.shards_of(counter))

        split = [found for found in map(hot, plan.shards) if found.shards > 1]
        hottest = [hot(counter) for counter in self._hottest()]
        return PlanStatus(
            split=len(split),
            most_split=max(split, key=lambda one: (one.shards, one.rate), default=None),
            hottest=hottest[0] if hottest else None,
            capped=[
                one
                for one in hottest
                if one.shards >= self.partitions and one.rate > one.shards * rate_max
            ],
            over_sharded=dict(self.records.over_sharded.counters),
        )

    def _plan(self) -> Plan:
        return self.records.plan(self.partitions, self.partitions, self.now_ms)

    def _hottest(self) -> list[str]:
        return sorted(self.load.rates, key=lambda name: -self.load.rates[name])[:HOTTEST_MAX]

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {
            "partitions": self.partitions,
            "counters": [one.document() for one in self.listed()],
            "over_sharded": dict(self.records.over_sharded.counters),
        }


def shards_now(settings: Settings, now_ms: int) -> ShardsNow:
    """Ask Kafka. Blocks; raises TryAgainError when it is away, OperatorError without a log."""
    partitions = topics.made_partitions(settings.kafka)
    records = read_plan(settings.kafka)
    load = load_now(settings.kafka, now_ms, settings.shard_delivery_p99_ms)
    return ShardsNow(partitions, now_ms, records, load)
