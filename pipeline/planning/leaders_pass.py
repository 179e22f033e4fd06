"""The leader's pass over the shard plan: reports in, changes of the plan out."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import msgspec

from pipeline import topics
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.planning.load_topic import LoadTopic
from pipeline.planning.over_sharded import OverShardedWatch
from pipeline.planning.plan import HINT_PREFIX, OVER_SHARDED_KEY, SHARDS_PREFIX, OverSharded
from pipeline.planning.plan_topic import PlanTopic
from pipeline.planning.planner import Planner, Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.clock import Clock
    from pipeline.planning.plan import PlanRecords, Split
    from schemas.addresses import KafkaAddress
    from schemas.settings import Settings

log = logging.getLogger(__name__)

PARTITIONS_INTERVAL_S = 10.0


class ShardPlanning:
    """Plans shards on this Kafka, pass by pass, while its worker leads.

    Used by one thread at a time. Clients stay open from one pass to the next. Kafka being away
    costs a few seconds of planning, and nothing else: producers go on with the plan they have.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Never blocks."""
        self._kafka = settings.kafka
        self._thresholds = Thresholds.of(settings)
        self._clock = clock
        self._open: _Open | None = None
        self._forget()

    def run(self) -> None:
        """One pass. Blocks; raises TryAgainError when Kafka is away, OperatorError when the plan
        cannot be read. Whatever it raises, the next pass begins with new clients."""
        try:
            if self._open is None:
                self._open = _Open(self._kafka, self._clock)
            self._pass(self._open)
        except BaseException:
            self._close()
            raise

    def rest(self) -> None:
        """Another worker leads: close what is open, and forget what was seen. Hardly blocks."""
        if self._open is not None:
            self._close()
            self._forget()

    def _forget(self) -> None:
        self._planner = Planner(self._thresholds)
        self._watch: OverShardedWatch | None = None

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _pass(self, on: _Open) -> None:
        now_ms = self._clock.now_ms()
        for report in on.load.reports():
            self._planner.add(report, now_ms)
        on.plan.follow(0)
        records, partitions = on.plan.records, on.partitions()
        if not partitions:
            return
        changes = self._planner.decide(now_ms, partitions, records)
        told = self._over_sharded(now_ms, partitions, records)
        written = [
            *(_split_record(counter, split) for counter, split in changes.items()),
            *(_record(HINT_PREFIX, counter, None) for counter in _expired(records, now_ms)),
            *([] if told is None else [told]),
        ]
        if written:
            write_records(self._kafka, written, self._clock)
            _tell(changes, records)

    def _over_sharded(self, now_ms: int, partitions: int, records: PlanRecords) -> LogRecord | None:
        if self._watch is None:
            self._watch = OverShardedWatch(self._thresholds.rate_max)
            self._watch.remember(records.over_sharded.counters, now_ms)
        plan = records.plan(partitions, partitions, now_ms)
        found = self._watch.see(now_ms, plan, self._planner.load(now_ms).rates)
        if found == records.over_sharded.counters:
            return None
        value = msgspec.json.encode(OverSharded(found, now_ms)) if found else None
        return LogRecord(topics.SHARD_PLAN, 0, value, OVER_SHARDED_KEY)


class _Open:
    """The clients of one leader."""

    def __init__(self, kafka: KafkaAddress, clock: Clock) -> None:
        """Blocks; raises as `PlanTopic.read`."""
        self._clock = clock
        with contextlib.ExitStack() as opened:
            self.plan = opened.enter_context(contextlib.closing(PlanTopic(kafka, followed=True)))
            self.load = opened.enter_context(contextlib.closing(LoadTopic(kafka)))
            self.plan.read()
            self._partitions = self.plan.increments_partitions()
            self._asked_s = clock.monotonic_s()
            self._opened = opened.pop_all()

    def partitions(self) -> int:
        """How many the log has; asked anew now and then. Blocks; raises TryAgainError."""
        if self._clock.monotonic_s() - self._asked_s >= PARTITIONS_INTERVAL_S:
            self._partitions = self.plan.increments_partitions() or self._partitions
            self._asked_s = self._clock.monotonic_s()
        return self._partitions

    def close(self) -> None:
        """Waits for what the clients are doing."""
        self._opened.close()


def _expired(records: PlanRecords, now_ms: int) -> list[str]:
    return sorted(records.hints.keys() - records.live_hints(now_ms).keys())


def _split_record(counter: str, split: Split | None) -> LogRecord:
    value = None if split is None else msgspec.json.encode(split)
    return _record(SHARDS_PREFIX, counter, value)


def _record(prefix: bytes, counter: str, value: bytes | None) -> LogRecord:
    return LogRecord(topics.SHARD_PLAN, 0, value, prefix + counter.encode())


def _tell(changes: Mapping[str, Split | None], records: PlanRecords) -> None:
    for counter, split in changes.items():
        before = records.splits.get(counter)
        log.info(
            "%r has %d shards instead of %d (%s)",
            counter,
            1 if split is None else split.n,
            1 if before is None else before.n,
            "quiet" if split is None else split.why,
        )
