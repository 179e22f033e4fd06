import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.embedded.log import flusher as flusher_module
from pipeline.embedded.log import sidecar
from pipeline.embedded.log.cleaner import Cleaner
from pipeline.embedded.log.flusher import Flusher
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.topic_config import TopicConfig
from tests.kit.clocks import ManualClock
from tests.unit.embedded_log.batches import make_batch, make_values
from tests.unit.embedded_log.test_cleaner import HandClock
from tests.unit.embedded_log.test_partition import open_partition


class Disk:
    """Stands where the disk is synced: holds a sync up until it is let go, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.syncs = 0
        self.folders: list[list[Path]] = []
        real = flusher_module._sync_files

        def held_up(
            paths: list[Path],
            folders: list[Path],
            syncs: ThreadPoolExecutor,
            scarce: Callable[[], None],
        ) -> None:
            assert self.gate.wait(10)
            self.syncs += 1
            self.folders.append(folders)
            real(paths, folders, syncs, scarce)

        monkeypatch.setattr(flusher_module, "_sync_files", held_up)


async def test_an_answer_waits_for_the_disk_in_mode_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    flusher, partition = Flusher(Fsync.ALWAYS, ManualClock()), open_partition(tmp_path)
    partition.append(make_values(1), 5)
    flusher.wrote(partition.active)
    waiting = asyncio.create_task(flusher.durable())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    disk.gate.set()
    await asyncio.wait_for(waiting, 10)
    assert disk.syncs == 1
    flusher.stop()
    partition.close()


async def test_those_who_wait_while_a_sync_runs_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    flusher, partition = Flusher(Fsync.ALWAYS, ManualClock()), open_partition(tmp_path)
    waiting = []
    for _ in range(10):
        partition.append(make_values(1), 5)
        flusher.wrote(partition.active)
        waiting.append(asyncio.create_task(flusher.durable()))
        await asyncio.sleep(0)
    disk.gate.set()
    await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert disk.syncs == 2
    flusher.stop()
    partition.close()


async def test_a_folder_is_synced_with_the_first_sync_of_a_file_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.gate.set()
    flusher, partition = Flusher(Fsync.ALWAYS, ManualClock()), open_partition(tmp_path)
    for _ in range(3):
        partition.append(make_values(1), 5)
        flusher.wrote(partition.active)
        await asyncio.wait_for(flusher.durable(), 10)
    assert disk.folders == [[partition.active.path.parent], [], []]
    flusher.stop()
    partition.close()


async def test_an_answer_does_not_wait_in_mode_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    flusher, partition = Flusher(Fsync.SECOND, ManualClock()), open_partition(tmp_path)
    partition.append(make_values(1), 5)
    flusher.wrote(partition.active)
    await asyncio.wait_for(flusher.durable(), 1)
    disk.gate.set()
    flusher.stop()
    assert disk.syncs == 1
    partition.close()


async def test_a_closed_segment_gets_its_sidecar_after_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    flusher, partition = Flusher(Fsync.SECOND, ManualClock()), open_partition(tmp_path)
    partition.append(make_values(1), 5)
    closed = partition.active
    flusher.closed(partition, closed, partition.producers.snapshot())
    await asyncio.sleep(0.02)
    assert not closed.sidecar_path.exists()
    disk.gate.set()
    flusher.stop()
    assert closed.sidecar_path.exists()
    partition.close()


async def test_a_sidecar_that_the_disk_refused_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing from there on would be compacted without it."""
    flusher, cleaner = Flusher(Fsync.SECOND, ManualClock()), Cleaner(HandClock())
    config = TopicConfig({"cleanup.policy": "compact"})
    partition = Partition(tmp_path, config, 0, 5, flusher.closed)
    real, refused = sidecar.write_part, [2]

    def write_part(path: Path, known: sidecar.Sidecar) -> Path:
        if refused[0]:
            refused[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, known)

    monkeypatch.setattr(sidecar, "write_part", write_part)
    for value in (b"1", b"2"):
        partition.append(make_batch([(b"k", value)], timestamps_ms=[5]), 5)
    partition.roll(5)
    for is_due in (False, False, True):
        await asyncio.to_thread(flusher._thread.submit(time.monotonic).result)
        assert cleaner.is_due(partition) == is_due
        await flusher.vouch()
    assert refused == [0]
    await cleaner.clean(partition)
    assert partition.segments[0].cleaned
    cleaner.stop()
    flusher.stop()
    partition.close()


async def test_a_sidecar_that_the_disk_refused_during_a_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flusher, cleaner = Flusher(Fsync.SECOND, ManualClock()), Cleaner(HandClock())
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(3):
        batch = make_batch([(b"k", b"v")], producer_id=number, epoch=0, sequence=0)
        partition.append(batch, 5)
        partition.roll(5)
    for segment in partition.segments[:-1]:
        segment.sidecar_path.write_bytes(b"torn")
    partition.close()

    def refuse(_path: Path, _known: sidecar.Sidecar) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sidecar, "write_part", refuse)
        again = open_partition(tmp_path, cleanup_policy="compact")
        flusher.opened(again)
        await flusher.vouch()
        assert not cleaner.is_due(again)
    await flusher.vouch()
    for number, segment in enumerate(again.segments[:-1]):
        known = sidecar.load(segment.sidecar_path, segment.size)
        assert known is not None
        assert [producer_id for producer_id, *_ in known.producers] == list(range(number + 1))
    assert cleaner.is_due(again)
    cleaner.stop()
    flusher.stop()
    again.close()


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_sidecar_that_could_not_be_put_in_its_place_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    flusher = Flusher(Fsync.SECOND, ManualClock())
    partition = Partition(tmp_path, TopicConfig({}), 0, 5, flusher.closed)
    real, refused = Path.rename, [2]

    def rename(path: Path, target: Path) -> Path:
        if refused[0] and path.suffix == ".part":
            refused[0] -= 1
            if is_gone:
                path.unlink()
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    partition.append(make_values(1), 5)
    closed = partition.active
    partition.roll(5)
    for _ in range(3):
        await asyncio.to_thread(flusher._thread.submit(time.monotonic).result)
        await flusher.vouch()
    assert refused == [0]
    assert sidecar.load(closed.sidecar_path, closed.size) is not None
    assert not parts_in(tmp_path)
    flusher.stop()
    partition.close()


async def test_a_disk_that_stays_full_is_told_once_for_each_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sidecars are tried each second."""
    flusher = Flusher(Fsync.SECOND, ManualClock())
    partition = Partition(tmp_path, TopicConfig({}), 0, 5, flusher.closed)

    def full(_path: Path, _known: sidecar.Sidecar) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sidecar, "write_part", full)
        for _ in range(2):
            partition.append(make_values(1), 5)
            partition.roll(5)
        for _ in range(5):
            await asyncio.to_thread(flusher._thread.submit(time.monotonic).result)
            await flusher.vouch()
    closed = partition.segments[:-1]
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == [str(segment.path) for segment in closed]
    await flusher.vouch()
    assert all(segment.sidecar_path.exists() for segment in closed)
    flusher.stop()
    partition.close()


async def test_files_deleted_meanwhile_are_no_error(tmp_path: Path) -> None:
    flusher, partition = Flusher(Fsync.ALWAYS, ManualClock()), open_partition(tmp_path / "p")
    partition.append(make_values(1), 5)
    flusher.wrote(partition.active)
    partition.active.remove()
    (tmp_path / "p").rmdir()
    await asyncio.wait_for(flusher.durable(), 10)
    flusher.stop()
    partition.close()


async def test_a_topic_may_ask_for_the_disk_in_mode_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    flusher, partition = Flusher(Fsync.SECOND, ManualClock()), open_partition(tmp_path)
    partition.append(make_values(1), 5)
    flusher.wrote(partition.active)
    waiting = asyncio.create_task(flusher.durable(at_once=True))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    disk.gate.set()
    await asyncio.wait_for(waiting, 10)
    assert disk.syncs == 1
    flusher.stop()
    partition.close()


class ExitedError(Exception):
    """Stands where the process would end."""


async def test_a_closed_segment_that_cannot_be_synced_ends_the_log_before_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flusher = Flusher(Fsync.ALWAYS, ManualClock())
    config = TopicConfig({"segment.bytes": "100"})
    partition = Partition(tmp_path, config, 0, 5, flusher.closed)
    exits: list[int] = []
    ended = threading.Event()
    bad, real = partition.active.path, os.fdatasync

    def fdatasync(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink() == bad:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    def exit_now(code: int) -> None:
        exits.append(code)
        # A process that has ended does nothing any more.
        assert ended.wait(10)
        raise ExitedError

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(os, "_exit", exit_now)

    async def produce() -> None:
        partition.append(make_values(5), 5)
        flusher.wrote(partition.active)
        await flusher.durable()

    waiting = [asyncio.create_task(produce()) for _ in range(2)]
    async with asyncio.timeout(10):
        while not exits:  # noqa: ASYNC110 - another thread appends
            await asyncio.sleep(0.01)
    done, _ = await asyncio.wait(waiting, timeout=0.3)
    assert (len(partition.segments), exits, done) == (2, [1], set())
    ended.set()
    await asyncio.wait(waiting, timeout=10)
    flusher.stop()
    partition.close()


@pytest.mark.parametrize("refused", ["fsync_0", "fsync-file_0", "fsync-file_1"])
@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_log_that_gets_no_thread_to_sync_with_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, is_closed: bool
) -> None:
    """It would sync nothing from then on, answer nobody under `always`, and under `second` all."""
    flusher = Flusher(Fsync.ALWAYS, ManualClock())
    exits: list[int] = []
    ended = threading.Event()
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == refused and not exits:
            raise RuntimeError("can't start new thread")
        real(thread)

    def exit_now(code: int) -> None:
        exits.append(code)
        # A process that has ended does nothing any more. Here the event loop has to go on.
        if threading.current_thread() is not threading.main_thread():
            assert ended.wait(10)
        raise ExitedError

    partitions = [
        Partition(tmp_path / str(number), TopicConfig({}), 0, 5, flusher.closed)
        for number in range(3)
    ]

    async def produce() -> None:
        for partition in partitions:
            partition.append(make_values(1), 5)
            flusher.wrote(partition.active)
        if is_closed:
            partitions[0].roll(5)
        await flusher.durable()

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        patched.setattr(os, "_exit", exit_now)
        waiting = asyncio.create_task(produce())
        async with asyncio.timeout(10):
            while not exits:  # noqa: ASYNC110 - another thread syncs
                await asyncio.sleep(0.01)
        assert exits == [1]
        waiting.cancel()
        ended.set()
        await asyncio.wait([waiting], timeout=10)
    flusher.stop()
    for partition in partitions:
        partition.close()


def parts_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.part"))


async def test_a_segment_is_compacted_once_it_was_synced_and_keeps_the_sidecar_of_that(
    tmp_path: Path,
) -> None:
    flusher, cleaner = Flusher(Fsync.SECOND, ManualClock()), Cleaner(HandClock())
    config = TopicConfig({"cleanup.policy": "compact"})
    partition = Partition(tmp_path, config, 0, 5, flusher.closed)
    for value in (b"1", b"2"):
        partition.append(make_batch([(b"k", value)], timestamps_ms=[5]), 5)
    gate = threading.Event()
    flusher._thread.submit(gate.wait, 10)
    partition.roll(5)
    await cleaner.clean(partition)
    assert not partition.segments[0].cleaned, "nobody knows yet what producers sent"
    gate.set()
    await asyncio.to_thread(flusher._thread.submit(time.monotonic).result)
    await asyncio.sleep(0.01)
    await cleaner.clean(partition)
    compacted = partition.segments[0]
    assert compacted.cleaned
    await asyncio.to_thread(flusher._thread.submit(time.monotonic).result)
    assert sidecar.load(compacted.sidecar_path, compacted.size) is not None
    assert not parts_in(tmp_path)
    cleaner.stop()
    flusher.stop()
    partition.close()


async def test_a_sync_waits_for_a_file_to_sync_with_and_asks_for_some_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = open_partition(tmp_path)
    free = threading.Event()
    flusher = Flusher(Fsync.ALWAYS, ManualClock(), give_back=free.set)
    partition.append(make_values(1), 5)
    flusher.wrote(partition.active)
    real = os.open

    def scarce(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if path in (partition.active.path, tmp_path) and not free.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", scarce)
    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("the log ended"))
    await asyncio.wait_for(flusher.durable(), 10)
    assert free.is_set()
    flusher.stop()
    partition.close()
