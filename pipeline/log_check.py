"""Is this the log that was counted, and how does it begin? What of the changelog is not read?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ShardRefusedError, TryAgainError

if TYPE_CHECKING:
    from pipeline.fetches import Fetch
    from pipeline.partition_reader import PartitionReader
    from pipeline.recovery import RecoveredShard
    from pipeline.shard import Shard


WHAT_TO_DO = (
    "if that was on purpose, stop the workers and run `tally accept-log`: it keeps what was "
    "counted and goes on with what is there"
)


class RecoveryReader:
    """A ChangelogReader and a LogCheck on Kafka. Raises TryAgainError when it is away."""

    def __init__(self, reader: PartitionReader, changelog: str, increments: str) -> None:
        self._reader = reader
        self._changelog = changelog
        self._increments = increments

    async def read_on(self, recovered: RecoveredShard) -> bool:
        """Add what the changelog has beyond what was recovered; False if that is nothing."""
        start, end = await self._reader.ends(self._changelog, recovered.partition)
        if recovered.first_offset is not None and recovered.first_offset > start:
            raise TryAgainError(
                f"the changelog of partition {recovered.partition} begins at offset {start}, but "
                f"was read from {recovered.first_offset} on; recovery begins again"
            )
        offset = start if recovered.next_offset is None else recovered.next_offset
        if offset >= end:
            return False
        fetch = await self._reader.fetch(self._changelog, recovered.partition, offset)
        recovered.add(fetch.start, fetch.next_offset, fetch.records)
        return True

    async def read_ahead(self, partition: int, offset: int) -> Fetch | None:
        """What one fetch of the increments brings from an offset; None at their end."""
        _, end = await self._reader.ends(self._increments, partition)
        if offset >= end:
            return None
        return await self._reader.fetch(self._increments, partition, offset)

    async def check(self, shard: Shard) -> None:
        """Raise ShardRefusedError when the log is not the one the shard was counted from.

        The last batch that was counted must still be what is in its place, unless retention has
        removed it since.
        """
        mark, partition = shard.last_batch, shard.partition
        start, end = await self._reader.ends(self._increments, partition)
        if end < shard.position:
            raise ShardRefusedError(
                partition,
                f"it was counted up to offset {shard.position}, but its log now ends at {end}: it "
                f"was truncated or made anew; {WHAT_TO_DO}",
            )
        if start > shard.position:
            raise ShardRefusedError(
                partition,
                f"it was counted up to offset {shard.position}, but its log now begins at {start}: "
                f"records were deleted before they were counted; {WHAT_TO_DO}",
            )
        if mark is None or mark.base_offset < start:
            return
        found = (
            await self._reader.fetch(self._increments, partition, mark.base_offset)
        ).first_batch
        if found is None or (found.base_offset, found.crc) != (mark.base_offset, mark.crc):
            raise ShardRefusedError(
                partition,
                f"its log has another record batch at offset {mark.base_offset} than the one that "
                f"was counted: it was made anew; {WHAT_TO_DO}",
            )

    async def check_flushed(self, shard: Shard, through: int, log_ms: int) -> None:
        """Raise ShardRefusedError when ClickHouse has counts of records that are not in the log.

        It has those of records up to the offset `through`, none of them younger than `log_ms`.
        That may be more than was checkpointed, so that `check` cannot know of it. The log may have
        others in their place by now: those are younger. Recovered cells may be further on, after a
        trim: what they skip was flushed before it.
        """
        partition = shard.partition
        flushed = max(through, shard.guard_through)
        _, end = await self._reader.ends(self._increments, partition)
        if end <= flushed:
            raise ShardRefusedError(
                partition,
                f"ClickHouse has what was counted of it up to offset {flushed}, but its log now "
                f"ends at {end}: it was truncated or made anew; {WHAT_TO_DO}",
            )
        younger = await self.first_younger(partition, through, log_ms)
        if younger is not None:
            raise ShardRefusedError(
                partition,
                f"its log has other records from offset {younger} to {through} than those that "
                f"were counted, they are younger: it was truncated or made anew; {WHAT_TO_DO}",
            )

    async def first_younger(self, partition: int, through: int, log_ms: int) -> int | None:
        """The first offset up to `through` with a record that is younger than `log_ms`, or None.

        Kafka also finds by their time what workers do not read, the ends of transactions and those
        that were aborted; these are passed over.
        """
        _, end = await self._reader.ends(self._increments, partition)
        at = await self._reader.offset_at(self._increments, partition, log_ms + 1)
        while at is not None and at < min(end, through + 1):
            fetch = await self._reader.fetch(self._increments, partition, at)
            offsets, times_ms = fetch.records.offsets, fetch.records.timestamps_ms
            younger = offsets[(offsets <= through) & (times_ms > log_ms)]
            if len(younger):
                return int(younger[0])
            at = fetch.next_offset
        return None
