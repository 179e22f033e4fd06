"""Folders on a disk."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk. Blocks; may raise OSError."""
    with opened_folder(folder) as descriptor:
        os.fsync(descriptor)


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """A folder that can be synced later, come what may. May raise OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_place(place: Path, folder: int) -> None:
    """Bring the name of what was just put in its place to the disk, by its opened folder.

    Blocks. Raises OperatorError, which says that it is there: nothing need be done again.
    """
    try:
        os.fsync(folder)
    except OSError as error:
        raise OperatorError(
            f"{place} is whole and in its place, but the disk did not confirm its name "
            f"({error.strerror or error}), so that a power cut may undo it: look after the disk"
        ) from error
