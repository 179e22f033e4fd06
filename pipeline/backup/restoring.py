"""Bringing a backup back, into a folder that nobody uses."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from pipeline.backup.archive import reading
from pipeline.errors import OperatorError
from pipeline.local import data_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.backup.archive import ArchiveReader
    from pipeline.backup.manifest import Manifest
    from pipeline.backup.taking import Tell


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
        draft = data.with_name(data.name + ".restoring")
        try:
            _check_room(made, draft.parent, data)
            shutil.rmtree(draft, ignore_errors=True)
            tell.step("files")
            _extract(archive, draft, tell)
            tell.step("disk")
            os.sync()
            # Onto an empty folder, or none; any other makes this fail.
            draft.rename(data)
        except OSError as error:
            raise OperatorError(_refusal(data, error)) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return made


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
    draft.mkdir()
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
