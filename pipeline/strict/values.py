"""Values of strict counters on their way to ClickHouse, for reading. They decide nothing.

They are absolute, with the offset they were decided through, so a row that is written twice, or by
somebody who was replaced, changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pipeline.errors import TallyError
from pipeline.writes.inserter import Inserter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from schemas.settings import Settings

log = logging.getLogger(__name__)

ROWS_MAX = 50_000
"""In one insert."""

POSITION_INTERVAL_S = 5.0
"""How often a partition says that it was flushed, also when nothing was decided in it."""

_TIME = pa.timestamp("ms", "UTC")
_VALUES = pa.schema(
    [
        ("counter", pa.string()),
        ("shard", pa.uint32()),
        ("value", pa.int64()),
        ("through", pa.int64()),
        ("log_time", _TIME),
    ]
)
_FLUSHES = pa.schema([("shard", pa.uint32()), ("flushed_at", _TIME)])


class Value(NamedTuple):
    """A counter's value as of an offset of its partition."""

    counter: str
    shard: int
    value: int
    through: int
    log_ms: int


class ValueFlusher:
    """Keeps the latest value of each counter until ClickHouse has it. Owned by one event loop."""

    def __init__(self, settings: Settings, clock: Clock, meter: Meter) -> None:
        self._inserter = Inserter(settings.clickhouse, meter)
        self._interval_s = settings.flush_interval_s
        self._clock = clock
        self._waiting: dict[str, Value] = {}
        self._shards: frozenset[int] = frozenset()
        self._told_s = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    def own(self, shards: Iterable[int]) -> None:
        """From now on these partitions are this decider's; what waits of others is forgotten."""
        self._shards = frozenset(shards)
        self._waiting = {
            counter: value
            for counter, value in self._waiting.items()
            if value.shard in self._shards
        }
        self._told_s = float("-inf")

    def add(self, values: Iterable[Value]) -> None:
        """These are in the changelog by now. Never blocks."""
        self._waiting.update((value.counter, value) for value in values)

    async def run(self) -> None:
        """Flush for ever. While ClickHouse is away, the latest values wait for it."""
        failing = False
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.flush()
                failing = False
            except TallyError as error:
                if not failing:
                    log.warning("strict values cannot be read for a while: %s", error)
                failing = True

    async def flush(self) -> None:
        """Write what waits, then when that was. Raises TallyError, and keeps what waits then.

        When is by ClickHouse's clock: of a worker's, the greatest time would hold for as long as it
        was ahead, and values that nobody flushes any more would look new.
        """
        async with self._one_at_a_time:
            await self._flush()

    async def _flush(self) -> None:
        is_due = self._clock.monotonic_s() - self._told_s >= POSITION_INTERVAL_S
        if not self._waiting and not (self._shards and is_due):
            return
        now_ms = await self._inserter.now_ms()
        # Together, and after the time was asked for: what was decided before it is among these.
        shards, waiting, self._waiting = self._shards, self._waiting, {}
        rows = list(waiting.values())
        try:
            for start in range(0, len(rows), ROWS_MAX):
                await self._inserter.insert(
                    "tally.strict_values", _table(rows[start : start + ROWS_MAX])
                )
        except BaseException:
            self._waiting = {**waiting, **self._waiting}
            raise
        if shards:
            moments = {"shard": sorted(shards), "flushed_at": [now_ms] * len(shards)}
            await self._inserter.insert(
                "tally.strict_flushes", pa.Table.from_pydict(moments, _FLUSHES)
            )
            if shards == self._shards:
                self._told_s = self._clock.monotonic_s()

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        self._inserter.close()


def _table(rows: list[Value]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _VALUES.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_VALUES)
