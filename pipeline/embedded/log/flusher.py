"""Brings what was written to the disk, off the event loop.

In both modes an acknowledged record is with the operating system, so the death of this process
loses nothing. A power cut can cost, with `second`, what was acknowledged in about the last second;
with `always`, nothing that was acknowledged, at the price of a sync before each answer (those who
wait at the same time share it). A topic with flush.messages=1 has that promise for itself alone.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import WeakSet

from pipeline.clock import Clock
from pipeline.embedded.log import sidecar
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.producers import Snapshot
from pipeline.embedded.log.segment import Segment
from pipeline.embedded.log.sidecar import Sidecar, sidecar_of
from pipeline.metrics.definitions import log as metric
from pipeline.metrics.meter import UNMEASURED, Meter

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0

SYNCS = 4
"""How many files are synced at a time: most of a sync is waiting, which the disk does for all."""


class Flusher:
    """Threads that sync. Its methods are called by the event loop's thread and do not block."""

    def __init__(self, mode: Fsync, clock: Clock, meter: Meter = UNMEASURED) -> None:
        self.mode = mode
        self._clock = clock
        self._meter = meter
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fsync")
        self._syncs = ThreadPoolExecutor(SYNCS, thread_name_prefix="fsync-file")
        self._dirty: set[Segment] = set()
        # Those whose folder was synced since they were made: it has to know of a file once.
        self._placed: WeakSet[Segment] = WeakSet()
        self._writes = 0
        self._writes_synced = 0
        self._sync: asyncio.Task[None] | None = None

    def wrote(self, segment: Segment) -> None:
        """A batch was appended to this segment."""
        self._dirty.add(segment)
        self._writes += 1

    async def durable(self, *, at_once: bool = False) -> None:
        """Returns when the promise of the mode holds for all that was written before the call.

        `at_once` is the promise of `always`, whatever the mode.
        """
        if at_once or self.mode is Fsync.ALWAYS:
            await self._synced()

    async def _synced(self) -> None:
        # Those who come while a sync runs share the next one.
        target = self._writes
        while self._writes_synced < target:
            if self._sync is None:
                self._sync = asyncio.create_task(self._sync_dirty())
            await asyncio.wait([self._sync])

    async def _sync_dirty(self) -> None:
        segments, self._dirty = self._dirty, set()
        writes = self._writes
        paths, folders = self._to_sync(segments)
        loop = asyncio.get_running_loop()
        began_s = self._clock.monotonic_s()
        await loop.run_in_executor(self._thread, _sync_or_die, paths, folders, self._syncs)
        self._placed.update(segments)
        self._meter.observe(metric.SYNC_SECONDS(), self._clock.monotonic_s() - began_s)
        self._writes_synced = writes
        self._sync = None

    async def run(self) -> None:
        """Syncs each second until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self._synced()

    def closed(self, partition: Partition, segment: Segment, producers: Snapshot) -> None:
        """Sync a segment that was closed, then write its sidecar."""
        self._dirty.discard(segment)
        known = sidecar_of(segment, producers)
        asyncio.get_running_loop().run_in_executor(
            self._thread, _sync_closed, partition, segment, known, self._syncs
        )

    def stop(self) -> None:
        """Sync what is left; blocks. The loop no longer runs."""
        _sync_files(*self._to_sync(self._dirty), self._syncs)
        self._thread.shutdown()
        self._syncs.shutdown()

    def _to_sync(self, segments: set[Segment]) -> tuple[list[Path], list[Path]]:
        """Their files, and the folders of those that are new."""
        new = {segment.path.parent for segment in segments if segment not in self._placed}
        return [segment.path for segment in segments], list(new)


def _sync_closed(
    partition: Partition, segment: Segment, known: Sidecar, syncs: ThreadPoolExecutor
) -> None:
    """A segment that was deleted in the meantime is no error."""
    try:
        _sync_files([segment.path], [segment.path.parent], syncs)
        if segment.path.exists() and not partition.dropped:
            sidecar.save(segment.sidecar_path, known)
    except OSError as error:
        logger.warning("%s: %s; the next start reads this segment whole", segment.path, error)


def _sync_or_die(paths: list[Path], folders: list[Path], syncs: ThreadPoolExecutor) -> None:
    """A disk that cannot sync has lost what it took: no later sync can be believed."""
    try:
        _sync_files(paths, folders, syncs)
    except OSError as error:
        logger.critical("the disk refuses to sync (%s): stopping", error)
        os._exit(1)


def _sync_files(paths: list[Path], folders: list[Path], syncs: ThreadPoolExecutor) -> None:
    """Files, then folders, by path: one that was deleted meanwhile needs no sync."""
    for sync, found in ((os.fdatasync, paths), (os.fsync, folders)):
        for done in [syncs.submit(_sync_one, path, sync) for path in found]:
            done.result()


def _sync_one(path: Path, sync: Callable[[int], None]) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        sync(fd)
    finally:
        os.close(fd)
