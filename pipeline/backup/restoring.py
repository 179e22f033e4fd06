"""Bringing a backup back, into a folder that nobody uses."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import stat
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.backup.archive import reading
from pipeline.errors import OperatorError
from pipeline.folders import opened_folder, sync_place
from pipeline.local import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.backup.archive import ArchiveReader
    from pipeline.backup.manifest import Manifest
    from pipeline.backup.taking import Tell


DRAFT = ".restoring-"
"""After the folder's name: what is not whole yet."""

DRAFTS_MAX = 5
"""So many are made before a restore gives up: each was removed by another one that began just then,
which is a matter of microseconds."""


def restore(source: Path, data: Path, tell: Tell) -> Manifest:
    """Make `data`, which must not be there or be empty, the folder that `source` is a backup of.

    Everything is checked before it gets its name: a restore that fails or is killed leaves `data`
    as it was. It has the mode of the folder that it replaces, or that of any new one. Its name is
    on the disk when this returns; where the disk refuses that alone, the error says that `data` is
    there. Blocks. Raises BadInputError for a backup that is damaged or not whole, OperatorError for
    a folder that is not empty, a version that this Tally does not read, and a full disk.
    """
    _check_target(data)
    with reading(source) as archive:
        made = archive.manifest
        data_folder.check(made.data, str(source))
        try:
            _check_room(made, data.parent, data)
            with opened_folder(data.parent) as parent, _draft_of(data) as draft:
                tell.step("files")
                mode = _mode_of_new(draft)
                _extract(archive, draft, tell)
                draft.chmod(stat.S_IMODE(data.stat().st_mode) if data.exists() else mode)
                tell.step("disk")
                os.sync()
                # Onto an empty folder, or none; any other makes this fail.
                draft.rename(data)
                sync_place(data, parent)
        except OSError as error:
            raise OperatorError(_refusal(data, error)) from error
    return made


@contextmanager
def _draft_of(data: Path) -> Iterator[Path]:
    """A folder beside it, of one restore alone, removed in the end. May raise OSError.

    It is held by a lock, as long as its restore lives: those of others that died are removed. Only
    its owner may read it.
    """
    prefix = data.name + DRAFT
    for other in data.parent.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError), _held(other):
            shutil.rmtree(other, ignore_errors=True)
    for _ in range(DRAFTS_MAX):
        with ExitStack() as held:
            draft = Path(tempfile.mkdtemp(prefix=prefix, dir=data.parent))
            held.callback(shutil.rmtree, draft, ignore_errors=True)
            # Before it is held, another restore may take it for one that was left, and remove it.
            try:
                held.enter_context(_held(draft))
            except (BlockingIOError, FileNotFoundError):
                continue
            if draft.exists():
                yield draft
                return
    raise OSError(errno.EBUSY, "others restore there, and removed its draft: try again")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Raises OSError where somebody else holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _mode_of_new(folder: Path) -> int:
    """That of a folder which this process makes there, by its umask and what the place bequeaths.

    To ask for the umask is to change it for a moment, for all threads; so one is made.
    """
    made = folder / "new"
    made.mkdir()
    mode = stat.S_IMODE(made.stat().st_mode)
    made.rmdir()
    return mode


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
