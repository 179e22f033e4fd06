"""The demo's two halves: a synthetic stream at a steady rate, and a live picture of the counts."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from pipeline.cli.output import console
from pipeline.clickhouse import connect
from pipeline.errors import TryAgainError
from pipeline.local.demo_reads import look
from pipeline.local.demo_scene import Scene
from pipeline.producer import Producer, UnknownDeliveryError
from pipeline.reads.reads import Reads
from pipeline.synthetic import SyntheticStream, day_level
from schemas.addresses import KafkaAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from pipeline.clock import Clock

TICK_S = 0.1
CLOSE_S = 1.0
SHOW_EVERY_S = 1.0
PRINT_EVERY_S = 5.0
"""How often the picture is printed where it cannot be redrawn: to a file or a pipe."""


class Demo:
    """Sends and shows until it is cancelled, or for `seconds` if that is not 0."""

    def __init__(
        self, environment: Mapping[str, str], clock: Clock, *, rate: int, seconds: float
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._rate = rate
        self._seconds = seconds
        self._sent = 0
        self._now_rate = float(rate)

    async def run(self) -> None:
        """Raises TryAgainError when Kafka is away at the beginning."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds or None):
                await asyncio.gather(self._send(), self._show())

    async def _send(self) -> None:
        producer = await asyncio.to_thread(Producer, KafkaAddress(self._environment["TALLY_KAFKA"]))
        try:
            await self._stream_to(producer)
        finally:
            with contextlib.suppress(UnknownDeliveryError):
                producer.close(CLOSE_S)

    async def _stream_to(self, producer: Producer) -> None:
        stream = SyntheticStream(seed=self._clock.now_ms())
        owed, before_s = 0.0, self._clock.monotonic_s()
        while True:
            # By the clock, not by the tick: a late tick sends more instead of slowing the stream.
            now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
            self._now_rate = self._rate * day_level(now_ms)
            owed = min(owed + (now_s - before_s) * self._now_rate, self._now_rate)
            before_s = now_s
            if due := int(owed):
                owed -= due
                await asyncio.to_thread(producer.increment_many, stream.events(now_ms, due))
                self._sent += due
            await asyncio.sleep(TICK_S)

    async def _show(self) -> None:
        client = await asyncio.to_thread(connect, self._environment["TALLY_CLICKHOUSE"])
        reads = Reads(client, self._clock)
        out = console()
        if not out.is_terminal:
            while True:
                await asyncio.sleep(PRINT_EVERY_S)
                out.print(await asyncio.to_thread(self._scene, reads))
        out.print()
        with Live(console=out, auto_refresh=False, transient=True) as live:
            while True:
                live.update(await asyncio.to_thread(self._scene, reads), refresh=True)
                await asyncio.sleep(SHOW_EVERY_S)

    def _scene(self, reads: Reads) -> RenderableType:
        try:
            seen = look(reads)
        except TryAgainError as error:  # It may be restarting: the supervisor sees to it.
            return Text(str(error), style="red")
        return Scene(
            now_ms=self._clock.now_ms(),
            sent=self._sent,
            rate=self._now_rate,
            seen=seen,
            environment=self._environment,
            command=_command(),
        ).render()


def _command() -> str:
    """How people can call this program where they stand."""
    called = sys.argv[0]
    if Path(called).name != "tally" or shutil.which("tally") == called:
        return "tally"
    return called
