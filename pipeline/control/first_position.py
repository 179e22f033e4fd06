"""Tells ClickHouse where a shard goes on that was accepted, before anything of it is flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.checkpoint import Position
from pipeline.writes.sink import ClickHouseSink

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.shard import Shard
    from schemas.addresses import ClickHouseAddress


class FirstPositions:
    """Writes the first position of shards of one build. Raises TryAgainError when ClickHouse is
    away, OperatorError when it refuses."""

    def __init__(self, address: ClickHouseAddress, build: int, clock: Clock) -> None:
        self._address = address
        self._build = build
        self._clock = clock

    async def write(self, shard: Shard) -> None:
        """All before its position is flushed, at the log time that it keeps."""
        sink = ClickHouseSink(self._address, self._build, shard.replica)
        try:
            await sink.write_positions([first_position(shard, self._clock.now_ms())])
        finally:
            sink.close()


def first_position(shard: Shard, now_ms: int) -> Position:
    """The position of a shard that has counted nothing of its log yet. Pure."""
    return Position(
        shard.partition,
        shard.incarnation,
        shard.position - 1,
        shard.log_ms,
        now_ms,
        shard.position - 1,
        now_ms,
        shard.rules.version,
    )
