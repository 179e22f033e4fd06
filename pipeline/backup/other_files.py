"""The third part of a backup: what somebody put into the data folder beside log and ClickHouse."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.backup.archive import PART
from pipeline.local.data_folder import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.backup.archive import ArchiveWriter

LOCK = "backup.lock"
"""Held in the data folder by whoever takes a backup of it."""

LEFT_OUT = frozenset({"log", "clickhouse", "logs", "lock", LOCK, "addresses.json", MARKER})
"""Taken apart, or of no use elsewhere: what parts printed, who runs."""


def add(data: Path, archive: ArchiveWriter) -> None:
    """Token files, families, notes. What is removed meanwhile is not taken. Raises OSError."""
    for path in _files(data):
        with suppress(FileNotFoundError):
            archive.add_file(path.relative_to(data).as_posix(), path)


def _files(data: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(data):
        left_out = LEFT_OUT if Path(parent) == data else frozenset()
        # Not even looked into: folders of servers come and go for as long as they run.
        folders[:] = sorted(set(folders) - left_out)
        for name in sorted(set(files) - left_out):
            path = Path(parent) / name
            if not name.endswith((".new", PART)) and path.is_file() and not path.is_symlink():
                yield path
