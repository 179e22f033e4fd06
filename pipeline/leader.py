"""What one worker does for all: heartbeats, rules repeated, rollups, trends, partitions noted.

The leader is whoever owns partition 0. For a moment there may be two, or none: all of this may be
done twice, and may wait. A build that is not live has a leader as well, who only rolls it up: what
is told to others, and what stands in the log, is the live one's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from pipeline import topics
from pipeline.absorb import HEARTBEAT_KIND
from pipeline.errors import TallyError
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED
from pipeline.rollup.rollup import pause_s
from pipeline.rules import RULES_KIND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pipeline.checkpoint import Checkpointer
    from pipeline.clock import Clock
    from pipeline.metrics.definitions.worker import Duty
    from pipeline.metrics.meter import Meter
    from pipeline.reconcile.compared import Reconciled
    from pipeline.rollup.steps import Rolled
    from pipeline.rules import CountingRules
    from pipeline.shard import Shard
    from pipeline.trends.scoring import TrendsScored
    from schemas.settings import Settings

log = logging.getLogger(__name__)

Passed = TypeVar("Passed")

LEADERS_PARTITION = 0

RULES_INTERVAL_S = 3600.0
"""How often the rules are repeated, so that a build which begins in the middle of the log soon
comes upon them, and long before retention takes the last ones away."""

PLAN_INTERVAL_S = 1.0
"""Between passes over the shard plan: a hot counter is split within seconds."""

PLAN_RETRY_S = 10.0
"""After a mistake in planning, which would otherwise be told every second."""

RULES_RETRY_S = 10.0
"""How soon after its start a leader repeats them first, and how soon again where it could not."""


PARTITIONS_INTERVAL_S = 10.0
"""Between looks at how many partitions there are: as often as workers look for new ones."""


class ControlLog(Protocol):
    """Appends a control record to every partition of a topic.

    Waits until all are confirmed; raises TryAgainError when Kafka is away.
    """

    async def append_control(self, topic: str, kind: str, value: bytes) -> None: ...


class Passes(Protocol):
    """A duty that keeps something open. Both methods block, and are called in a thread."""

    def run(self) -> None:
        """One pass. Raises TallyError when a server is away."""
        ...

    def rest(self) -> None:
        """This worker does not lead: let go of what is open. Called again and again."""
        ...


class Leader:
    """Does its duties for ever, while it leads. Owned by one event loop.

    A server that is away is asked again at the next turn; anything else that is raised ends the
    worker. `roll_up` is one pass of the rollup, `score_trends` one of the trends; `keep_plan`
    writes rules to the producers' plan if they are missing there; `planning` splits hot counters in
    it; `noting` tells reads how many partitions there are; `reconcile` compares log and
    ClickHouse. All block, and are called in a thread. `is_live` says whether this build is the one
    that views read.
    """

    def __init__(
        self,
        checkpointer: Checkpointer,
        control: ControlLog,
        roll_up: Callable[[], Rolled],
        keep_plan: Callable[[CountingRules], None],
        score_trends: Callable[[CountingRules], TrendsScored],
        *,
        planning: Passes,
        noting: Passes,
        is_live: Callable[[], bool],
        reconcile: Callable[[], Reconciled],
        clock: Clock,
        settings: Settings,
        meter: Meter = UNMEASURED,
    ) -> None:
        self._checkpointer = checkpointer
        self._control = control
        self._roll_up = roll_up
        self._keep_plan = keep_plan
        self._score_trends = score_trends
        self._planning = planning
        self._noting = noting
        self._is_live = is_live
        self._reconcile = reconcile
        self._clock = clock
        self._settings = settings
        self._meter = meter
        meter.read(metric.LEADS(), lambda: LEADERS_PARTITION in checkpointer.owned)

    def duties(self) -> list[Callable[[], Awaitable[None]]]:
        """All of them; each runs for ever, whether this is the leader or not."""
        return [
            self.send_heartbeats,
            self.repeat_rules,
            self.roll_up,
            self.score_trends,
            self.plan_shards,
            self.note_partitions,
            self.reconcile,
        ]

    async def send_heartbeats(self) -> None:
        """A heartbeat moves an idle partition's log time, and tells how fresh counts are."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_s)
            if self._leading_live() is not None:
                value = json.dumps({"sent_ms": self._clock.now_ms()}).encode()
                await self._append(HEARTBEAT_KIND, value)

    async def repeat_rules(self) -> None:
        """The rules that partition 0 is counted by, into the plan and into every partition.

        Soon after it leads, then by the hour: producers choose partitions for ids by the plan, so
        one that was lost must not be missing for long.
        """
        done = False
        while True:
            await asyncio.sleep(RULES_INTERVAL_S if done else RULES_RETRY_S)
            shard = self._leading_live()
            done = shard is not None and await self._repeat(shard.rules)

    async def roll_up(self) -> None:
        """Passes of the rollup, each after a pause that grows with what it takes."""
        interval_s = self._settings.rollup_interval_s
        took_s = 0.0
        while True:
            await asyncio.sleep(pause_s(interval_s, took_s))
            if self._leading() is None:
                continue
            try:
                rolled = await self._measured("rollup", self._roll_up)
            except TallyError as error:
                log.warning("%s; trying again in %.0f s", error, interval_s)
                continue
            took_s = rolled.took_s
            for problem in rolled.problems:
                log.warning("%s", problem)
            if rolled.problems:
                self._meter.add(metric.PASS_FAILURES(duty="rollup"))

    async def score_trends(self) -> None:
        """Passes of the trends, each after a pause that grows with what it takes."""
        interval_s = self._settings.trends_interval_s
        took_s = 0.0
        while True:
            await asyncio.sleep(pause_s(interval_s, took_s))
            shard = self._leading_live()
            if shard is None:
                continue
            try:
                score = partial(self._score_trends, shard.rules)
                took_s = (await self._measured("trends", score)).took_s
            except TallyError as error:
                log.warning("%s; trying again in %.0f s", error, interval_s)
            except Exception:
                # Trends are no counts: whatever is wrong with them must not end the counting.
                log.exception("trends cannot be scored; trying again in %.0f s", interval_s)

    async def plan_shards(self) -> None:
        """Passes over the shard plan, about every second."""
        told = ""
        while True:
            await asyncio.sleep(PLAN_INTERVAL_S)
            try:
                if self._leading_live() is None:
                    await asyncio.to_thread(self._planning.rest)
                else:
                    await self._measured("plan", self._planning.run)
            except TallyError as error:
                # Every second: the same is told once.
                if str(error) != told:
                    told = str(error)
                    log.warning("%s; trying again", told)
            except Exception:
                # A plan only spreads load: whatever is wrong with it must not end the counting.
                log.exception("shards cannot be planned; trying again")
                await asyncio.sleep(PLAN_RETRY_S)
            else:
                told = ""

    async def note_partitions(self) -> None:
        """Looks at how many partitions there are, for reads, about every ten seconds."""
        while True:
            await asyncio.sleep(PARTITIONS_INTERVAL_S)
            try:
                if self._leading_live() is None:
                    await asyncio.to_thread(self._noting.rest)
                else:
                    await self._measured("partitions", self._noting.run)
            except TallyError as error:
                log.warning("%s; trying again in %.0f s", error, PARTITIONS_INTERVAL_S)
            except Exception:
                # Nothing is counted by it: whatever is wrong with it must not end the counting.
                log.exception("partitions cannot be noted; trying again")

    async def reconcile(self) -> None:
        """Passes of comparing log and ClickHouse, each after a pause that grows with what it takes.

        What differs is in ClickHouse, for `tally status`; it is told here when it is new.
        """
        interval_s = self._settings.verify_interval_s
        took_s, told = 0.0, 0
        while True:
            await asyncio.sleep(pause_s(interval_s, took_s))
            if self._leading_live() is None:
                continue
            try:
                found = await self._measured("reconcile", self._reconcile)
            except TallyError as error:
                log.warning("%s; trying again in %.0f s", error, interval_s)
            except Exception:
                # Nothing is counted by it: whatever is wrong with it must not end the counting.
                log.exception("log and ClickHouse cannot be compared; trying again")
            else:
                took_s = found.took_s
                if found.differences and len(found.differences) != told:
                    log.warning("log and ClickHouse differ: %s", found.differences[0].text())
                told = len(found.differences)

    async def _measured(self, duty: Duty, run: Callable[[], Passed]) -> Passed:
        """One pass, in a thread; raises what it raises."""
        began_s = self._clock.monotonic_s()
        try:
            return await asyncio.to_thread(run)
        except Exception:
            self._meter.add(metric.PASS_FAILURES(duty=duty))
            raise
        finally:
            took_s = self._clock.monotonic_s() - began_s
            self._meter.observe(metric.PASS_SECONDS(duty=duty), took_s)

    def _leading(self) -> Shard | None:
        """The leader's shard, or None if this is not the leader."""
        owned = self._checkpointer.owned.get(LEADERS_PARTITION)
        return None if owned is None else owned.shard

    def _leading_live(self) -> Shard | None:
        """The leader's shard, if what it counts is what people see."""
        return self._leading() if self._is_live() else None

    async def _repeat(self, rules: CountingRules) -> bool:
        """Whether there were rules to repeat, and they are where they belong."""
        if not rules.version:
            return False
        try:
            await asyncio.to_thread(self._keep_plan, rules)
        except TallyError as error:
            log.warning("%s; trying again", error)
            return False
        return await self._append(RULES_KIND, rules.bytes)

    async def _append(self, kind: str, value: bytes) -> bool:
        try:
            await self._control.append_control(topics.INCREMENTS, kind, value)
        except TallyError as error:
            log.warning("%s; trying again", error)
            return False
        return True
