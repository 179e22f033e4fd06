"""Follows the shard plan for as long as a producer lives."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control import shard_plan
from pipeline.errors import TallyError
from pipeline.planning.plan_topic import PlanTopic

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.planning.plan import Plan, PlanRecords
    from schemas.addresses import KafkaAddress

log = logging.getLogger(__name__)

PARTITIONS_INTERVAL_S = 10.0
"""How often the number of partitions is asked for. They only grow, and nobody waits for it."""

_POLL_S = 0.5
_RETRY_S = 1.0
_STOP_TIMEOUT_S = 10.0


class PlanFollower:
    """Keeps a snapshot of the plan that any thread may read at any time.

    A daemon thread follows the topic. Whatever goes wrong there, the last snapshot stays, and it
    begins anew a second later.
    """

    def __init__(self, kafka: KafkaAddress, clock: Clock | None = None) -> None:
        """Never blocks."""
        self._kafka = kafka
        self._clock = clock or SystemClock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tally-plan", daemon=True)
        self._plan: Plan | None = None
        self._first_id_partitions = 0

    @property
    def plan(self) -> Plan:
        """What holds now: immutable, replaced as a whole. Never blocks. After `start` only."""
        if self._plan is None:
            raise RuntimeError("the plan is known after start()")
        return self._plan

    def start(self) -> None:
        """Read the plan and the number of partitions, then follow. Call it once.

        Blocks. Raises TryAgainError when Kafka is away; OperatorError when nobody has made the
        log, or where it cannot be known to which partitions ids were sent before.
        """
        partitions = topics.made_partitions(self._kafka)
        records = shard_plan.read_plan(self._kafka)
        self._first_id_partitions = shard_plan.producers_id_partitions(
            records.rules, partitions, lambda: shard_plan.has_records(self._kafka, partitions)
        )
        self._publish(records, partitions)
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """End the thread, waiting so long for it; the last snapshot stays. May be repeated."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        told = ""
        while not self._stopped.is_set():
            try:
                self._follow()
            except TallyError as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("the shard plan is not followed for a moment: %s", told)
            except Exception:
                # A producer goes on with the plan it has: a plan only spreads load.
                log.exception("the shard plan cannot be followed; trying again")
            self._stopped.wait(_RETRY_S)

    def _follow(self) -> None:
        """Until it is stopped. Raises TallyError when it cannot go on with this client."""
        with contextlib.closing(PlanTopic(self._kafka, followed=True)) as topic:
            topic.read_what_is_readable()
            partitions = topic.increments_partitions() or self.plan.partitions
            asked_s = self._clock.monotonic_s()
            while not self._stopped.is_set():
                self._publish(topic.records, partitions)
                topic.follow(_POLL_S)
                if self._clock.monotonic_s() - asked_s >= PARTITIONS_INTERVAL_S:
                    partitions = topic.increments_partitions() or partitions
                    asked_s = self._clock.monotonic_s()

    def _publish(self, records: PlanRecords, partitions: int) -> None:
        """A new snapshot if it is another: records came, hints expired or partitions were added."""
        # Of a plan that was made anew, or has rules that nobody can read, those before still hold.
        rules = records.rules or (self._plan.rules if self._plan else None)
        id_partitions = (
            shard_plan.id_partitions(rules, partitions)
            if rules
            else min(self._first_id_partitions, partitions)
        )
        plan = records.plan(partitions, id_partitions, self._clock.now_ms())
        plan = replace(plan, rules=rules)
        if plan != self._plan:
            self._plan = plan
