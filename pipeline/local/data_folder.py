"""The version of a data folder, in a small file of its own, so that no Tally misreads another's.

    DATA/tally-data.json   {"format": 1, "tally": "0.1.0", "engine": "26.9.0"}

`format` is the layout of the folder and of the embedded log's files; ClickHouse's tables and the
records in the log have versions of their own (docs/formats.md). `engine` is the newest ClickHouse
engine that ever opened the folder: engines read what older ones wrote, and not the reverse.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from pipeline import __version__
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "tally-data.json"
FORMAT = 1
"""Folders from before there was a marker have this layout, too; they get one when they are used."""

ENGINE_PACKAGE = "chdb-core"


class Marker(msgspec.Struct, frozen=True):
    """What wrote a data folder."""

    format: int
    tally: str
    engine: str


def engine_version() -> str:
    """Of the engine that is installed; it is not loaded."""
    return version(ENGINE_PACKAGE)


def present() -> Marker:
    """What this Tally writes."""
    return Marker(FORMAT, __version__, engine_version())


def encode(marker: Marker) -> bytes:
    return msgspec.json.encode(marker) + b"\n"


def mark(data: Path) -> None:
    """Say in an existing folder that this Tally uses it; call it before anything else is written.

    Raises OperatorError, and leaves the folder alone, when another Tally's data is in it that this
    one does not read.
    """
    file = data / MARKER
    found = read_marker(data)
    if found is not None:
        check(found, str(data))
    mine = present()
    if found == mine:
        return
    draft = file.with_name(MARKER + ".new")
    try:
        draft.write_bytes(encode(mine))
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
    except OSError as error:
        raise OperatorError(f"cannot use {data} ({error.strerror}): choose --data") from error


def read_marker(data: Path) -> Marker | None:
    """None where there is none. Raises OperatorError for one that cannot be read."""
    file = data / MARKER
    try:
        return msgspec.json.decode(file.read_bytes(), type=Marker)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OperatorError(
            f"{file} cannot be read ({error}): it is no data folder of Tally, or a newer Tally's; "
            "use that one, or choose another folder with --data"
        ) from error


def check(found: Marker, what: str) -> None:
    """Raises OperatorError unless this Tally reads what `found` speaks of, which is `what`."""
    if found.format != FORMAT:
        age = "newer" if found.format > FORMAT else "older"
        raise OperatorError(
            f"{what} is of data format {found.format}, written by the {age} Tally {found.tally}; "
            f"this Tally {__version__} reads format {FORMAT}: use version {found.tally}"
        )
    mine = engine_version()
    if _release(found.engine) > _release(mine):
        raise OperatorError(
            f"{what} was used with ClickHouse engine {found.engine}, and {mine} is installed, "
            f"which may misread it: install {ENGINE_PACKAGE} {found.engine} or newer"
        )


def _release(text: str) -> tuple[int, ...]:
    """Year and month: engines of one release read each other's data."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:2])
