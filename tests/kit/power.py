"""What a power cut leaves of a folder, as far as can be said: only what was synced is sure.

Syncs are seen where they are asked for, by `os.fsync` and `os.fdatasync`, and need not be done: the
disk here is this model. Of a file is sure what it held when it was last synced, of a folder the
names that were in it then. What was done to a folder since is on the disk up to some moment, in
its order, as a journal keeps it; what was written to a file since is there in part, or as zeros.
SQLite syncs by itself, where nothing is seen of it: its files are left as they are.
"""

import os
import random
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Names = dict[str, int]

SQLITE = "meta.sqlite"

SYNC_S = 0.0005
"""What is written while a sync runs is not sure after it: there has to be time to write it."""


def _hears_all(_path: Path) -> bool:
    return True


class Disk:
    """The disk under a folder, from `watched` on. Its methods may be called by any thread."""

    def __init__(self, root: Path, hears: Callable[[Path], bool]) -> None:
        self._root = root
        self._hears = hears
        self._lock = threading.RLock()
        # Open, so that no number of a file that is gone is given to a new one.
        self._open: dict[int, int] = {}
        self._synced: dict[int, bytes] = {}
        # What was in a folder at its last sync, and after each change since.
        self._names: dict[int, list[Names]] = {}
        self._at = self._met(os.open(root, os.O_RDONLY | os.O_CLOEXEC))
        self._believe(self._at)

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)

    def _met(self, fd: int) -> int:
        """The number of a file or folder; `fd` is kept, or closed if there is one already."""
        number = os.fstat(fd).st_ino
        if number in self._open:
            os.close(fd)
        else:
            self._open[number] = fd
            if self._is_folder(number):
                self._names[number] = [{}]
        return number

    def _is_folder(self, number: int) -> bool:
        return stat.S_ISDIR(os.fstat(self._open[number]).st_mode)

    def _believe(self, number: int) -> None:
        """All that is there now is on the disk, with what is in it."""
        if not self._is_folder(number):
            self._synced[number] = self._content(number)
            return
        found = self._listed(number)
        self._names[number] = [found]
        for one in found.values():
            self._believe(one)

    def _listed(self, folder: int) -> Names:
        found: Names = {}
        for name in os.listdir(self._open[folder]):  # noqa: PTH208 - no path, but what is open
            try:
                fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._open[folder])
            except FileNotFoundError:
                continue
            found[name] = self._met(fd)
        return found

    def _content(self, number: int) -> bytes:
        fd = self._open[number]
        return os.pread(fd, os.fstat(fd).st_size, 0)

    def sync(self, fd: int) -> None:
        """Stands where a file or a folder is synced: what is there before it is sure after it."""
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if not path.is_relative_to(self._root) or not self._hears(path):
            return
        with self._lock:
            number = self._met(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC))
            if self._is_folder(number):
                self._names[number] = [self._listed(number)]
            else:
                self._synced[number] = self._content(number)
        time.sleep(SYNC_S)

    def changing(self, real: Callable[..., None]) -> Callable[..., None]:
        """`os.rename` or `os.unlink`, after which it is noted what is in the folder."""

        def change(path: Path, *more: Any, **options: Any) -> None:
            with self._lock:
                real(path, *more, **options)
                if Path(path).is_relative_to(self._root):
                    fd = os.open(Path(path).parent, os.O_RDONLY | os.O_CLOEXEC)
                    folder = self._met(fd)
                    self._names[folder].append(self._listed(folder))

        return change

    def cut(self, target: Path, chance: random.Random | None) -> None:
        """Make `target` what a power cut at this moment leaves: without `chance` what is sure, with
        it more than that, by chance.
        """
        with self._lock:
            self._leave(self._at, target, chance)

    def _leave(self, number: int, target: Path, chance: random.Random | None) -> None:
        if not self._is_folder(number):
            is_own = target.name.startswith(SQLITE)
            target.write_bytes(self._content(number) if is_own else self._left(number, chance))
            return
        target.mkdir()
        now = self._listed(number)
        states = [*self._names[number], now]
        left = dict(states[0] if chance is None else chance.choice(states))
        left |= {name: one for name, one in now.items() if name.startswith(SQLITE)}
        for name, one in left.items():
            self._leave(one, target / name, chance)

    def _left(self, number: int, chance: random.Random | None) -> bytes:
        """Of a file: what was synced, and perhaps something of what came after that."""
        sure, now = self._synced.get(number, b""), self._content(number)
        if chance is None:
            return sure
        if not now.startswith(sure):  # Cut since.
            return chance.choice([sure, now])
        there = chance.choice([len(sure), len(now), chance.randint(len(sure), len(now))])
        return now[:there] + chance.choice([b"", bytes(len(now) - there)])


@contextmanager
def watched(root: Path, hears: Callable[[Path], bool] = _hears_all) -> Iterator[Disk]:
    """The disk under `root`, on which is what is there now. Nothing is really synced meanwhile.

    A sync of a path that the disk does not hear is not done, though it is said to be.
    """
    disk = Disk(root, hears)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, disk.sync)
        for name in ("rename", "unlink"):
            patched.setattr(os, name, disk.changing(getattr(os, name)))
        try:
            yield disk
        finally:
            disk.close()
