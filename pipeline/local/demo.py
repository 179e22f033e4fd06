"""The demo's two halves: a synthetic stream at a steady rate, and a live table of the counts."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group as Stack
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import console
from pipeline.clickhouse import connect
from pipeline.errors import TryAgainError
from pipeline.producer import Producer, UnknownDeliveryError
from pipeline.reads.reads import Reads
from pipeline.synthetic import SyntheticStream
from schemas.addresses import KafkaAddress, with_user, without_secrets
from schemas.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from pipeline.clock import Clock

TICK_S = 0.1
CLOSE_S = 1.0
SHOW_EVERY_S = 1.0
PRINT_EVERY_S = 5.0
"""How often the table is printed where it cannot be redrawn: to a file or a pipe."""

DEFAULT_CLICKHOUSE: str = Settings.model_fields["clickhouse"].default
LAST_MS = 300_000
TOP = 10
_BAR_CELLS = 24


@dataclass(frozen=True, slots=True)
class Scene:
    """What the table shows at one moment."""

    sent: int
    rate: float
    staleness_ms: int | None
    top: list[tuple[str, int]]
    environment: Mapping[str, str] = field(repr=False)

    def render(self) -> RenderableType:
        """The scene as a table with bars."""
        behind = "…" if self.staleness_ms is None else f"{self.staleness_ms / 1000:.1f} s"
        head = f"{self.sent:,} events sent · {self.rate:,.0f}/s · counts {behind} old"
        table = Table("", "counter", "last 5 min", "", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        greatest = max((count for _, count in self.top), default=0)
        for rank, (counter, count) in enumerate(self.top, 1):
            bar = "█" * max(1, round(_BAR_CELLS * count / greatest)) if count > 0 else ""
            table.add_row(str(rank), Text(counter), f"{count:,}", Text(bar, style="cyan"))
        first = self.top[0][0] if self.top else "likes:post-1"
        kafka, url = self.environment["TALLY_KAFKA"], self.environment["TALLY_CLICKHOUSE"]
        clickhouse = without_secrets(url)
        if clickhouse != url:  # It asks for tokens; ours is for nobody's eyes.
            clickhouse = with_user(url, "default", "TOKEN")
        where = "" if clickhouse == DEFAULT_CLICKHOUSE else f"TALLY_CLICKHOUSE={clickhouse} "
        query = f"SELECT * FROM tally.counts_1m WHERE counter = '{first}' ORDER BY window"  # noqa: S608 - shown, not run
        hints = (
            f"\nDashboard http://{self.environment['TALLY_WEB']} · Kafka {kafka} · "
            f"ClickHouse {clickhouse} · Ctrl-C stops\n"
            "In another terminal:\n"
            f"  {where}.venv/bin/tally count '{first}' --by 1m --last 10m\n"
            f'  curl {clickhouse} -d "{query}"'
        )
        return Stack(Text(head, style="bold"), table, Text(hints, style="dim"))


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
        began_s = self._clock.monotonic_s()
        while True:
            # By the clock, not by the tick: a late tick sends more instead of slowing the stream.
            due = int((self._clock.monotonic_s() - began_s + TICK_S) * self._rate) - self._sent
            if due > 0:
                due = min(due, self._rate)
                events = stream.events(self._clock.now_ms(), due)
                await asyncio.to_thread(producer.increment_many, events)
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
            flushed = [shard.flushed_at_ms for shard in reads.positions()]
            top = reads.top(LAST_MS, TOP)
        except TryAgainError as error:  # It may be restarting: the supervisor sees to it.
            return Text(str(error), style="red")
        now_ms = self._clock.now_ms()
        return Scene(
            sent=self._sent,
            rate=self._rate,
            staleness_ms=now_ms - max(flushed) if flushed else None,
            top=top,
            environment=self._environment,
        ).render()
