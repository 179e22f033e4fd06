"""Compacts one partition after the other: decides on the event loop, works in a thread."""

import asyncio
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path

from pipeline.clock import Clock
from pipeline.embedded.log.compaction import (
    Newest,
    Source,
    groups_of,
    newest_offsets,
    swap_name,
    write_clean,
)
from pipeline.embedded.log.faults import POINT
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.recovery import put_in_place
from pipeline.embedded.log.segment import Segment, segment_path
from pipeline.folders import opened_folder

logger = logging.getLogger(__name__)


class Cleaner:
    """Called by the event loop's thread. Readers see old or new segments, never a mixture."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compaction")

    def is_due(self, partition: Partition) -> bool:
        """True when enough of the partition is dirty, or tombstones have had their time."""
        if not partition.config.is_compacted:
            return False
        now_ms = self._clock.now_ms()
        closed = partition.segments[:-1]
        dirty = self._dirty(partition, now_ms)
        dirty_bytes = sum(s.size for s in dirty)
        total_bytes = sum(s.size for s in closed)
        if dirty_bytes and dirty_bytes >= partition.config.dirty_ratio * total_bytes:
            return True
        overdue_ms = now_ms - partition.config.number("max.compaction.lag.ms")
        if any(0 <= s.max_timestamp_ms <= overdue_ms for s in dirty):
            return True
        within_reach = [*_clean_beginning(partition), *dirty]
        return any(min(s.horizons_ms.values()) <= now_ms for s in within_reach if s.horizons_ms)

    def _dirty(self, partition: Partition, now_ms: int) -> list[Segment]:
        settled_ms = now_ms - partition.config.number("min.compaction.lag.ms")
        dirty: list[Segment] = []
        for segment in partition.segments[:-1]:
            # One that was cleaned, behind one that was not, counts too: it may hold the tombstone
            # of a value before it, and must not lose it while that value is there.
            if segment.cleaned and not dirty:
                continue
            if segment.max_timestamp_ms > settled_ms:
                break
            # Its producers are known from there alone, and the flusher is not done with it.
            if not segment.sidecar_path.exists():
                break
            dirty.append(segment)
        return dirty

    async def clean(self, partition: Partition) -> None:
        """One pass over the closed segments. The next pass tries what the disk refused."""
        loop = asyncio.get_running_loop()
        now_ms = self._clock.now_ms()
        dirty = [Source.of(segment) for segment in self._dirty(partition, now_ms)]
        try:
            newest, covered = await loop.run_in_executor(self._thread, newest_offsets, dirty)
            sources = self._sources(partition, covered)
            for group in groups_of(sources, partition.config.segment_bytes):
                if not await self._clean_group(partition, group, newest, now_ms):
                    # A tombstone behind it may be of a value in it: its time must not run, nor may
                    # it go, while that value is there.
                    break
        except OSError as error:
            if not partition.dropped:
                logger.warning("%s: compaction put off: %s", partition.folder, error)

    def _sources(self, partition: Partition, covered: list[Source]) -> list[Source]:
        """All closed segments up to the last covered one, those cleaned before among them."""
        closed = partition.segments[:-1]
        if covered:
            last = covered[-1].segment
            closed = closed[: closed.index(last) + 1] if last in closed else []
        else:
            closed = _clean_beginning(partition)
        return [Source.of(segment) for segment in closed]

    async def _clean_group(
        self, partition: Partition, group: list[Source], newest: Newest, now_ms: int
    ) -> bool:
        """Whether what is left of the group is in its place now. May raise OSError if not."""
        loop = asyncio.get_running_loop()
        keep_ms = partition.config.number("delete.retention.ms")
        cleaned = await loop.run_in_executor(
            self._thread, write_clean, group, newest, now_ms, keep_ms, partition.end_offset
        )
        old = [source.segment for source in group]
        if not _can_replace(partition, old):
            # Retention or a deletion was faster: what was written is of no use.
            cleaned.remove()
            return False
        swap = cleaned.path.with_name(swap_name(group) + ".swap")
        await loop.run_in_executor(self._thread, _commit, cleaned, swap)
        if partition.dropped:
            # Its folder goes, with all that is in it.
            return False
        for segment in old:
            segment.close()
        with _or_die(swap):
            put_in_place(swap, [segment.path for segment in old])
        cleaned.path = segment_path(partition.folder, cleaned.base_offset)
        cleaned.shelve()
        # A client may have deleted records meanwhile. Those of them that are in the new file are
        # before the partition's start, as they would be in a segment that was deleted in part.
        held = [segment for segment in old if segment in partition.segments]
        if held:
            partition.replace(held, cleaned)
        else:
            cleaned.remove()
        return True

    def stop(self) -> None:
        """Blocks until the thread is done with what it has in hand."""
        self._thread.shutdown()


def _can_replace(partition: Partition, old: list[Segment]) -> bool:
    """Whether these are still there, one after the other."""
    return not partition.dropped and partition.holds(old)


def _commit(cleaned: Segment, swap: Path) -> None:
    """In the thread. After the return the commit survives a power cut, and what it replaces may be
    deleted. Raises OSError if nothing was committed; what was written is removed then.
    """
    with ExitStack() as held:
        try:
            # Before the rename: to have no file left to sync with is no reason to end the log as
            # long as all this can be put off.
            folder = held.enter_context(opened_folder(swap.parent))
            cleaned.path.rename(swap)
        except OSError:
            cleaned.remove()
            raise
        # From here on the sidecar belongs to what is committed.
        POINT.pass_by("compaction-swap")
        with _or_die(swap):
            os.fsync(folder)


@contextmanager
def _or_die(swap: Path) -> Iterator[None]:
    """What is committed is finished, by the next start if not here.

    To go on with what it replaces would be worse: a later pass would put what was written since
    into the same place, and a later start this swap over that.
    """
    try:
        yield
    except OSError as error:
        logger.critical("%s could not be put in its place (%s): stopping", swap, error)
        os._exit(1)


def _clean_beginning(partition: Partition) -> list[Segment]:
    """Those before the first that was not cleaned.

    One behind it may hold the tombstone of a value in it.
    """
    return list(takewhile(lambda segment: segment.cleaned, partition.segments[:-1]))
