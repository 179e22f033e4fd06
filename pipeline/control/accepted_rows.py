"""Tells ClickHouse of shards that were accepted, before anything more of them is flushed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipeline.checkpoint import Position
from pipeline.writes.sink import ClickHouseSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.clock import Clock
    from pipeline.dead_letters import DeadLetter
    from pipeline.shard import Shard
    from schemas.addresses import ClickHouseAddress


class AcceptedRows:
    """Writes rows of one build. Methods raise TryAgainError when ClickHouse is away, OperatorError
    when it refuses."""

    def __init__(self, address: ClickHouseAddress, build: int, replica: str, clock: Clock) -> None:
        self._address = address
        self._build = build
        self._replica = replica
        self._clock = clock

    async def letters(self, letters: Sequence[DeadLetter]) -> None:
        """What people look at of dead letters."""
        with closing(ClickHouseSink(self._address, self._build, self._replica)) as sink:
            await sink.write_dead_letters(letters)

    async def position(self, shard: Shard) -> None:
        """All before its position is flushed, at the log time that it keeps."""
        with closing(ClickHouseSink(self._address, self._build, shard.replica)) as sink:
            await sink.write_positions([first_position(shard, self._clock.now_ms())])


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
