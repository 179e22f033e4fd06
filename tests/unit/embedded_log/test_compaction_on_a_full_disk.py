"""A compaction that the disk has no room for takes nothing of what is left of it."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.embedded.log.cleaner import Cleaner
from tests.unit.embedded_log.test_cleaner import START_MS, HandClock, unfinished_in, write
from tests.unit.embedded_log.test_compaction import content
from tests.unit.embedded_log.test_partition import open_partition


def left_in(folder: Path) -> list[Path]:
    return [*unfinished_in(folder), *folder.glob("*.part")]


async def no_pass_leaves_anything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: object, name: str, refusing: object
) -> None:
    """Two passes are refused, over one segment and over two; a third one, which is not, is done."""
    partition = open_partition(folder, cleanup_policy="compact")
    cleaner = Cleaner(HandClock())
    with monkeypatch.context() as patched:
        patched.setattr(target, name, refusing)
        patched.setattr(os, "_exit", lambda _: pytest.fail("the log ended"))
        for _ in range(2):
            for number in range(60):
                write(partition, b"k%d" % number, b"v" * 1_000)
            partition.roll(START_MS)
            await cleaner.clean(partition)
            assert left_in(folder) == []
    assert len(content(partition)) == 120
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert [offset for offset, _, _ in content(partition)] == list(range(60, 120))
    assert left_in(folder) == []
    cleaner.stop()
    partition.close()


async def test_a_pass_that_fills_the_disk_gives_back_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever appends has no room otherwise; the next pass has another name, and takes more."""
    real = os.pwrite

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if at > 40_000 and Path(f"/proc/self/fd/{fd}").readlink().suffix == ".clean":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, at)

    await no_pass_leaves_anything(tmp_path, monkeypatch, os, "pwrite", pwrite)


async def test_a_pass_whose_sidecar_the_disk_refuses_gives_back_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".part":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    await no_pass_leaves_anything(tmp_path, monkeypatch, os, "fsync", fsync)


async def test_a_pass_whose_commit_the_disk_refuses_gives_back_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if target.suffix == ".swap":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, target)

    await no_pass_leaves_anything(tmp_path, monkeypatch, Path, "rename", rename)


async def test_a_pass_that_may_not_fit_on_the_disk_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would take until it fails is not there for those who append."""
    made: list[Path] = []
    real = os.open

    def note(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix == ".clean":
            made.append(Path(path))
        return real(path, flags, mode)

    def nearly_full(_folder: Path) -> SimpleNamespace:
        assert made == []
        return SimpleNamespace(free=60_000)

    monkeypatch.setattr(os, "open", note)
    await no_pass_leaves_anything(tmp_path, monkeypatch, shutil, "disk_usage", nearly_full)
    assert len(made) == 1
