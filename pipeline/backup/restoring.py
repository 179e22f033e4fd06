"""Bringing a backup back, into a folder that nobody uses."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.backup.archive import reading
from pipeline.errors import OperatorError
from pipeline.local import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.backup.archive import ArchiveReader
    from pipeline.backup.manifest import Manifest
    from pipeline.backup.taking import Tell


DRAFT = ".restoring-"
"""After the folder's name: what is not whole yet."""


def restore(source: Path, data: Path, tell: Tell) -> Manifest:
    """Make `data`, which must not be there or be empty, the folder that `source` is a backup of.

    Everything is checked before it gets its name: a restore that fails or is killed leaves `data`
    as it was. Blocks. Raises BadInputError for a backup that is damaged or not whole, OperatorError
    for a folder that is not empty, a version that this Tally does not read, and a full disk.
    """
    _check_target(data)
    with reading(source) as archive:
        made = archive.manifest
        data_folder.check(made.data, str(source))
        try:
            _check_room(made, data.parent, data)
            with _draft_of(data) as draft:
                tell.step("files")
                _extract(archive, draft, tell)
                tell.step("disk")
                os.sync()
                # Onto an empty folder, or none; any other makes this fail.
                draft.rename(data)
        except OSError as error:
            raise OperatorError(_refusal(data, error)) from error
    return made


@contextmanager
def _draft_of(data: Path) -> Iterator[Path]:
    """A folder beside it, of one restore alone, removed in the end. May raise OSError.

    It is held by a lock, as long as its restore lives: those of others that died are removed.
    """
    prefix = data.name + DRAFT
    for other in data.parent.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError), _held(other):
            shutil.rmtree(other, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=prefix, dir=data.parent))
    try:
        with _held(draft):
            draft.chmod(0o755)
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Raises OSError where somebody else holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _check_target(data: Path) -> None:
    if data.is_symlink() or (data.exists() and not data.is_dir()):
        raise OperatorError(f"{data} is no folder: choose another with --data")
    if data.is_dir() and any(data.iterdir()):
        what = "a data folder of Tally" if (data / data_folder.MARKER).exists() else "not empty"
        raise OperatorError(
            f"{data} is {what}: a backup is restored into a new folder; choose one with --data"
        )


def _check_room(made: Manifest, folder: Path, data: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < made.size_bytes:
        raise OSError(errno.ENOSPC, f"{made.size_bytes:,} bytes are needed", str(data))


def _extract(archive: ArchiveReader, draft: Path, tell: Tell) -> None:
    for item in archive.manifest.items:
        place = draft / item.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if item.link:
            place.symlink_to(item.link)
        else:
            archive.extract(item, place, tell.copied)


def _refusal(data: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"there is no room for {data} ({error.strerror}): free some, or choose another disk"
    return f"cannot restore to {data}: {error.strerror or error}"
