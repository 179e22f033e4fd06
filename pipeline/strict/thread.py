"""Deciding beside counting: a thread with an event loop of its own, in every worker.

So a rebalance, a full buffer or a slow ClickHouse of one does not hold up the other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import uvloop

from pipeline.strict.decider import Decider
from pipeline.strict.strict_topics import look_at_safety
from pipeline.topics import admin_client

if TYPE_CHECKING:
    import faust

    from pipeline.checkpoint import Checkpointer
    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from schemas.settings import Settings

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
STOP_TIMEOUT_S = 10.0


def decide_beside(
    app: faust.App, checkpointer: Checkpointer, settings: Settings, clock: Clock, meter: Meter
) -> None:
    """Have a worker decide, too, from when on the rules that it counts by have a strict family."""
    thread = DecidingThread(settings, clock, meter)

    async def start_when_needed() -> None:
        # Rules are in the log and change with it; nothing else tells of them.
        while not any(one.shard.rules.has_strict for one in checkpointer.owned.values()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK_INTERVAL_S)
        thread.start()

    async def stop(*_signal: Any, **_details: Any) -> None:
        await thread.stop()

    app.task(start_when_needed)
    app.on_before_shutdown.connect(stop, weak=False)


class DecidingThread:
    """Decides from its start until it is stopped."""

    def __init__(self, settings: Settings, clock: Clock, meter: Meter) -> None:
        """Never blocks."""
        self._settings = settings
        self._clock = clock
        self._meter = meter
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decider: Decider | None = None
        self._thread = threading.Thread(target=self._run, name="tally-strict", daemon=True)

    def start(self) -> None:
        """Call it once. Never blocks."""
        self._thread.start()

    async def stop(self) -> None:
        """Have it leave the group, and wait for that a while. May be repeated."""
        if self._thread.ident is None:
            return
        if self._loop is not None and self._decider is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._decider.stop)
        await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._loop = runner.get_loop()
                runner.run(self._decide())
        except BaseException:
            # A bug, also where it looks as if somebody had cancelled it: the process ends, and
            # another one goes on from the log.
            log.exception("deciding strict commands failed")
            os._exit(1)

    async def _decide(self) -> None:
        self._decider = Decider(self._settings, self._clock, self._meter, self._tell_safety)
        await self._decider.run()

    def _tell_safety(self) -> None:
        """Say plainly how safe decisions are here. Blocks; raises TryAgainError."""
        for found in look_at_safety(admin_client(self._settings.kafka)):
            if found.weakness is not None:
                log.log(logging.INFO if found.is_alone else logging.WARNING, "%s", found.weakness)
