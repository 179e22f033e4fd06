"""A small disk of a part's own, which can be filled to the last byte. Needs root."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest

TIMEOUT_S = 20


def why_no_disks() -> str | None:
    """One line that says why no disk can be filled here, or None when it can."""
    if os.geteuid() != 0:
        return "no disk is filled: a small one is mounted by root alone"
    return None


class NoDiskError(AssertionError):
    """There must be small disks, by TALLY_REQUIRE_DISKS=1, and one could not be mounted."""


class Disk:
    """A tmpfs on a folder, from `mount` to `unmount`."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        """Nothing is mounted yet."""
        self.folder = folder
        self._megabytes = megabytes
        self._is_mounted = False

    def mount(self) -> str | None:
        """Why it could not be mounted, or None. The folder is there in any case.

        Under TALLY_REQUIRE_DISKS=1 it raises NoDiskError instead of telling why.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        why = why_no_disks() or self._why_not_mounted()
        if why is not None and os.environ.get("TALLY_REQUIRE_DISKS") == "1":
            raise NoDiskError(f"{why} (TALLY_REQUIRE_DISKS=1)")
        return why

    def _why_not_mounted(self) -> str | None:
        options = f"size={self._megabytes}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())
            return f"no disk is filled: {said}"
        self._is_mounted = True
        return None

    def fill(self) -> bool:
        """Leave no byte free; False if others freed some as fast as it was filled. Then what was
        filled stays, and the next call goes on with it.

        Raises RuntimeError when nothing is mounted: the folder's own disk is not for filling.
        """
        if not self._is_mounted:
            raise RuntimeError(f"no small disk is mounted on {self.folder}: it cannot be filled")
        try:
            with (self.folder / "ballast").open("ab", buffering=0) as ballast:
                return [self._is_filled(ballast, size) for size in (1 << 20, 1 << 12, 1)][-1]
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return True  # Not even an empty file has room.

    def _is_filled(self, ballast: FileIO, size: int) -> bool:
        """Write pieces of one size until none is taken; enough is enough."""
        for _ in range(self._megabytes << 2):
            try:
                ballast.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return True
        return False

    def free(self) -> None:
        """Give back what was filled."""
        (self.folder / "ballast").unlink(missing_ok=True)

    def unmount(self) -> None:
        """Lazily: a process that was just killed may hold it for a moment."""
        if self._is_mounted:
            self._is_mounted = False
            command = ["umount", "-l", str(self.folder)]
            subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Disk]:
    """One of a test's own; where there can be none, the test is skipped."""
    disk = Disk(folder, megabytes)
    if (why := disk.mount()) is not None:
        pytest.skip(why)
    try:
        yield disk
    finally:
        disk.unmount()
