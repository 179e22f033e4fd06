"""Brings what was written to the disk, off the event loop.

In both modes an acknowledged record is with the operating system, so the death of this process
loses nothing. A power cut can cost, with `second`, what was acknowledged in about the last second;
with `always`, nothing that was acknowledged, at the price of a sync before each answer (those who
wait at the same time share it). A topic with flush.messages=1 has that promise for itself alone.
"""

import asyncio
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
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

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Why a file cannot be opened now, though nothing is wrong with it or with its disk."""

SCARCE_PAUSE_S = 0.05


class _Unvouched(NamedTuple):
    """A closed segment that is on the disk, whose sidecar is not in its place yet."""

    partition: Partition
    segment: Segment
    known: Sidecar
    is_told: bool = False
    """That the disk refused it: said once, as a full disk refuses it each second."""


class _Closed(NamedTuple):
    """One whose sidecar is written, beside its place."""

    unvouched: _Unvouched
    part: Path


def _nothing() -> None:
    """Gives no files back."""


class Flusher:
    """Threads that sync. Its methods are called by the event loop's thread and do not block."""

    def __init__(
        self,
        mode: Fsync,
        clock: Clock,
        meter: Meter = UNMEASURED,
        give_back: Callable[[], None] = _nothing,
    ) -> None:
        """`give_back` closes files that nobody needs at this moment. The event loop's thread calls
        it when there is none left to sync with.
        """
        self.mode = mode
        self._give_back = give_back
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
        self._closed: deque[_Closed] = deque()
        self._unvouched: deque[_Unvouched] = deque()

    def opened(self, partition: Partition) -> None:
        """Take up what its start left: the next sync syncs what an earlier process may have
        acknowledged and not synced, and sidecars that the disk refused are tried again.
        """
        if partition.unsynced is not None:
            self.wrote(partition.unsynced)
        for segment, producers in partition.unvouched:
            known = sidecar_of(segment, producers)
            self._unvouched.append(_Unvouched(partition, segment, known, is_told=True))
        partition.unvouched.clear()

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
        await self._in_thread(
            partial(_sync_or_die, paths, folders, self._syncs, self._scarce(loop))
        )
        self._placed.update(segments)
        self._meter.observe(metric.SYNC_SECONDS(), self._clock.monotonic_s() - began_s)
        self._writes_synced = writes
        self._sync = None

    async def run(self) -> None:
        """Syncs each second until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self._synced()
            await self.vouch()

    def closed(self, partition: Partition, segment: Segment, producers: Snapshot) -> None:
        """Sync a segment that was closed, then write its sidecar.

        The thread does one thing after the other, so whoever waits for a later sync waits for this.
        """
        self._dirty.discard(segment)
        known = sidecar_of(segment, producers)
        loop = asyncio.get_running_loop()
        done = self._in_thread(
            partial(self._sync_closed, partition, segment, known, self._scarce(loop))
        )
        done.add_done_callback(lambda _: self._place())

    def _sync_closed(
        self, partition: Partition, segment: Segment, known: Sidecar, scarce: Callable[[], None]
    ) -> None:
        """In the thread. A segment that was deleted in the meantime is no error."""
        _sync_or_die([segment.path], [segment.path.parent], self._syncs, scarce)
        self._write_sidecar(_Unvouched(partition, segment, known))

    async def vouch(self) -> None:
        """Try once more to write the sidecars that the disk refused, and to put them in place.

        Without them nothing from there on would be compacted until the next start.
        """
        for _ in range(len(self._unvouched)):
            one = self._unvouched.popleft()
            if one.segment in one.partition.segments:
                await self._in_thread(partial(self._write_sidecar, one))
        self._place()

    def _write_sidecar(self, one: _Unvouched) -> None:
        """In the thread."""
        if one.partition.dropped:
            return
        try:
            part = sidecar.write_part(one.segment.sidecar_path, one.known)
        except OSError as error:
            self._try_again(one, error)
        else:
            self._closed.append(_Closed(one, part))

    def _place(self) -> None:
        """Put sidecars that are written in their places.

        Compaction puts its files in place on the event loop too: a segment that it has replaced is
        known here, and its sidecar must not come in the place of the new one's.
        """
        while self._closed:
            one, part = self._closed.popleft()
            try:
                if one.partition.dropped or one.segment not in one.partition.segments:
                    part.unlink(missing_ok=True)
                else:
                    part.rename(one.segment.sidecar_path)
                    one.segment.shelve()
            except OSError as error:
                self._try_again(one, error)

    def _try_again(self, one: _Unvouched, error: OSError) -> None:
        """Leave it to the next `vouch`, or to the next start, which reads the segment whole."""
        if not one.is_told:
            logger.warning("%s: %s; its sidecar is tried again", one.segment.path, error)
        self._unvouched.append(one._replace(is_told=True))

    def _in_thread(self, act: Callable[[], None]) -> asyncio.Future[None]:
        """Have the thread that syncs do something, after all that it was given before."""
        with _or_die():
            return asyncio.get_running_loop().run_in_executor(self._thread, act)

    def _scarce(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """What a thread calls that finds no file to sync with. It blocks for a moment."""

        def wait() -> None:
            loop.call_soon_threadsafe(self._give_back)
            time.sleep(SCARCE_PAUSE_S)

        return wait

    def stop(self) -> None:
        """Sync what is left; blocks. The loop no longer runs. May raise OSError."""
        # The threads may wait for files, which the loop cannot give back any more.
        self._give_back()
        self._thread.shutdown()
        self._place()
        _sync_files(*self._to_sync(self._dirty), self._syncs, lambda: time.sleep(SCARCE_PAUSE_S))
        self._syncs.shutdown()

    def _to_sync(self, segments: set[Segment]) -> tuple[list[Path], list[Path]]:
        """Their files, and the folders of those that are new."""
        new = {segment.path.parent for segment in segments if segment not in self._placed}
        return [segment.path for segment in segments], list(new)


@contextmanager
def _or_die() -> Iterator[None]:
    """A disk that cannot sync has lost what it took: no later sync can be believed.

    Whatever else goes wrong, as where the system has no thread to sync with, ends the log as well:
    it would go on and sync nothing, and who waits for a sync would wait for ever.
    """
    try:
        yield
    except Exception as error:
        logger.critical("what was written cannot be synced (%r): stopping", error)
        os._exit(1)


def _sync_or_die(
    paths: list[Path], folders: list[Path], syncs: ThreadPoolExecutor, scarce: Callable[[], None]
) -> None:
    """In the thread: of some of its work nobody looks at the outcome."""
    with _or_die():
        _sync_files(paths, folders, syncs, scarce)


def _sync_files(
    paths: list[Path], folders: list[Path], syncs: ThreadPoolExecutor, scarce: Callable[[], None]
) -> None:
    """Files, then folders, by path: one that was deleted meanwhile needs no sync.

    Blocks, calling `scarce` again and again, while there are no files to be had.
    """
    for sync, found in ((os.fdatasync, paths), (os.fsync, folders)):
        for done in [syncs.submit(_sync_one, path, sync, scarce) for path in found]:
            done.result()


def _sync_one(path: Path, sync: Callable[[int], None], scarce: Callable[[], None]) -> None:
    fd = _opened(path, scarce)
    if fd is None:
        return
    try:
        sync(fd)
    finally:
        os.close(fd)


def _opened(path: Path, scarce: Callable[[], None]) -> int | None:
    """The file, None if it is gone. Waits while no file can be opened: that loses nothing yet."""
    is_told = False
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in SCARCE:
                raise
            if not is_told:
                logger.warning("%s: the sync waits: %s", path, error)
            is_told = True
        scarce()
