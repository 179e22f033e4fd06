"""ClickHouse's part of a backup: what the running door froze, or the folder of a stopped one."""

from __future__ import annotations

import http.client
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.embedded.clickhouse.control import (
    FREEZE_PATH,
    KEY_HEADER,
    THAW_PATH,
    Control,
    Frozen,
    read_control,
)
from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.backup.archive import ArchiveWriter

ENGINE = "clickhouse/engine"
ANSWER_TIMEOUT_S = 60.0
"""Longer than the door waits for writing statements to end."""

PASSING = ("tmp_", "delete_tmp_")
"""How names of parts begin that the engine removes when it starts."""

_STARTED_ANEW = "ClickHouse was started anew while it was copied: try again"

NEEDED = ("metadata", "user_defined", "data", "store")


class Tables(NamedTuple):
    """A folder like the engine's own, how many files it has, if somebody has counted them, and for
    how long writers had to wait for it."""

    folder: Path
    files: int | None
    held_ms: float = 0.0


@contextmanager
def tables(folder: Path, *, is_stopped: bool) -> Iterator[Tables]:
    """The tables at one moment, for as long as the block lasts.

    Raises TryAgainError when the door does not answer, or somebody writes for too long, and
    OperatorError when it refuses.
    """
    if is_stopped:
        yield Tables(folder / "engine", None)
        return
    control = read_control(folder)
    if control is None:
        raise TryAgainError("ClickHouse is not running yet: try again when `tally up` is healthy")
    try:
        frozen = msgspec.json.decode(_ask(control, FREEZE_PATH), type=Frozen)
        yield Tables(Path(frozen.folder), frozen.files, frozen.held_ms)
    finally:
        # What is left when the door is away is removed by its next start.
        with suppress(TryAgainError, OperatorError):
            _ask(control, THAW_PATH)


def _ask(control: Control, path: str) -> str:
    connection = http.client.HTTPConnection(control.host, control.port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("POST", path, headers={KEY_HEADER: control.key})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise TryAgainError(f"ClickHouse does not answer ({error}): try again") from error
    finally:
        connection.close()
    if answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        raise TryAgainError(text)
    if answer.status != http.HTTPStatus.OK:
        raise OperatorError(f"ClickHouse cannot be copied: {text}")
    return text


def add(found: Tables, archive: ArchiveWriter) -> None:
    """All that an engine needs to open the tables again.

    Raises OSError, and TryAgainError when files are gone: a door that starts anew removes what it
    had frozen, and a folder that is removed while it is walked through looks like a smaller one.
    """
    added = 0
    try:
        for path in _files(found.folder):
            name = f"{ENGINE}/{path.relative_to(found.folder).as_posix()}"
            if path.is_symlink():
                archive.add_link(name, str(path.readlink()))
            else:
                archive.add_file(name, path)
            added += 1
    except FileNotFoundError as error:
        raise TryAgainError(_STARTED_ANEW) from error
    if found.files not in {None, added}:
        raise TryAgainError(_STARTED_ANEW)


def _files(folder: Path) -> Iterator[Path]:
    for part in NEEDED:
        for parent, folders, files in os.walk(folder / part):
            # A link to a folder is a file here: nothing is taken twice.
            links = [one for one in folders if (Path(parent) / one).is_symlink()]
            is_table = Path(parent).parent.parent == folder / "store"
            folders[:] = sorted(
                one for one in folders if not (is_table and one.startswith(PASSING))
            )
            yield from (Path(parent) / one for one in sorted([*files, *links]))
