"""The consumer group of a build, as Faust's consumer sees it: who is at which offset."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from aiokafka.errors import IllegalStateError
from faust.types import TP

if TYPE_CHECKING:
    from collections.abc import Mapping

    import faust

    from pipeline.bulk import BulkConsumer


class Group:
    """Reads and commits the offsets of one topic. Its methods wait for the group's coordinator."""

    def __init__(self, app: faust.App, topic: str) -> None:
        self._app = app
        self._topic = topic

    async def commit(self, positions: Mapping[int, int], generation: int) -> bool:
        """Commit next offsets by partition. False if the group has left `generation` behind."""
        offsets = {TP(self._topic, partition): at for partition, at in positions.items()}
        return await self._consumer().commit_in(offsets, generation)

    async def committed(self, partition: int) -> int | None:
        """The committed next offset of a partition, or None if there never was one."""
        return await self._consumer().committed(TP(self._topic, partition))

    async def log_start(self, partition: int) -> int:
        """The first offset the log still has of a partition."""
        tp = TP(self._topic, partition)
        return (await self._consumer().earliest_offsets(tp))[tp]

    async def position(self, partition: int) -> int | None:
        """The next offset that will be fetched of a partition; None if it is not ours."""
        try:
            return await self._consumer().position(TP(self._topic, partition))
        except IllegalStateError:  # It is another worker's by now.
            return None

    async def seek(self, partition: int, offset: int) -> None:
        """Fetch a partition from `offset` on."""
        with contextlib.suppress(IllegalStateError):  # It is another worker's by now.
            await self._consumer().seek(TP(self._topic, partition), offset)

    def _consumer(self) -> BulkConsumer:
        return cast("BulkConsumer", self._app.consumer)
