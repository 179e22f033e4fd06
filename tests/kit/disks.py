"""A small disk of a part's own, which can be filled to the last byte. Needs root."""

import contextlib
import os
import subprocess
from pathlib import Path

TIMEOUT_S = 20


def why_no_disks() -> str | None:
    """One line that says why no disk can be filled here, or None when it can."""
    if os.geteuid() != 0:
        return "no disk is filled: a small one is mounted by root alone"
    return None


class Disk:
    """A tmpfs on a folder, from `mount` to `unmount`."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        """Nothing is mounted yet."""
        self.folder = folder
        self._megabytes = megabytes
        self._is_mounted = False

    def mount(self) -> str | None:
        """Why it could not be mounted, or None. The folder is there in any case."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if (why := why_no_disks()) is not None:
            return why
        options = f"size={self._megabytes}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)
        if done.returncode:
            return f"no disk is filled: {done.stderr.decode(errors='replace').strip()}"
        self._is_mounted = True
        return None

    def fill(self) -> None:
        """Leave no byte free."""
        if not self._is_mounted:
            return
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                # Others may free some meanwhile; enough is enough.
                with contextlib.suppress(OSError):
                    for _ in range(self._megabytes << 2):
                        ballast.write(bytes(size))

    def free(self) -> None:
        """Give back what was filled."""
        (self.folder / "ballast").unlink(missing_ok=True)

    def unmount(self) -> None:
        """Lazily: a process that was just killed may hold it for a moment."""
        if self._is_mounted:
            self._is_mounted = False
            command = ["umount", "-l", str(self.folder)]
            subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)
