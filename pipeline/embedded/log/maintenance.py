"""What happens by itself: segments roll by age, old ones go, compacted topics are compacted."""

import asyncio
import logging

from pipeline.clock import Clock
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.cleaner import Cleaner
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.retention import Extent, expired_count

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
# Files that nobody reads are closed, and silent producers forgotten, once in so many rounds.
ROUNDS_BETWEEN_SWEEPS = 60


class Maintenance:
    """One task of the event loop."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._cleaner = Cleaner(clock)

    async def run(self) -> None:
        """Goes over all partitions each second until cancelled."""
        rounds = 0
        while True:
            await asyncio.sleep(INTERVAL_S)
            rounds += 1
            # None is being compacted here, so what a compaction wrote to one of them is complete.
            self._broker.remove_deleted()
            for topic in list(self._broker.topics.values()):
                for partition in list(topic.partitions):
                    if partition.dropped:
                        continue
                    self._tidy(partition, sweep=rounds % ROUNDS_BETWEEN_SWEEPS == 0)
                    if self._cleaner.is_due(partition):
                        await self._cleaner.clean(partition)
                # Many partitions must not hold up the requests.
                await asyncio.sleep(0)

    def _tidy(self, partition: Partition, *, sweep: bool) -> None:
        now_ms = self._clock.now_ms()
        try:
            active = partition.active
            if active.size and now_ms - active.created_ms >= partition.config.segment_ms:
                partition.roll(now_ms)
            self._let_go(partition, now_ms)
        except OSError as error:
            logger.warning("%s: upkeep put off: %s", partition.folder, error)
        if sweep:
            partition.producers.expire(now_ms)
            partition.close()

    def _let_go(self, partition: Partition, now_ms: int) -> None:
        extents = [
            # Records without a time are as old as their segment.
            Extent(s.size, s.max_timestamp_ms if s.max_timestamp_ms >= 0 else s.created_ms)
            for s in partition.segments
            if s.size
        ]
        count = expired_count(extents, partition.config, now_ms)
        if not count:
            return
        if count == len(extents):
            partition.roll(now_ms)
        kept = [s for s in partition.segments if s.size][count:]
        partition.delete_before(kept[0].base_offset if kept else partition.end_offset)

    def stop(self) -> None:
        """Blocks until no thread writes any more."""
        self._cleaner.stop()
