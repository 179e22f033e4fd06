import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.embedded.log import flusher as flusher_module
from pipeline.embedded.log.flusher import Flusher
from pipeline.embedded.log.fsync import Fsync
from tests.kit.clocks import ManualClock
from tests.unit.embedded_log.batches import make_values
from tests.unit.embedded_log.test_partition import open_partition


class Disk:
    """Stands where the disk is synced: holds a sync up until it is let go, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.syncs = 0
        self.folders: list[list[Path]] = []
        real = flusher_module._sync_files

        def held_up(paths: list[Path], folders: list[Path], syncs: ThreadPoolExecutor) -> None:
            assert self.gate.wait(10)
            self.syncs += 1
            self.folders.append(folders)
            real(paths, folders, syncs)

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
