"""Keeps the engine from merging parts on a disk that is nearly full.

chDB 4.4 (engine 26.9) tells nobody when a merge runs out of space: the part that it makes takes the
place of those it was made of, and has empty files. These others stay on the disk for two minutes
(engine.xml), and the next start finds them, and sets the spoilt part aside. So while little is free
nothing is merged, and where a merge ran out of space nevertheless, the process ends in order to be
started again.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from pipeline.embedded.clickhouse.errors import ClickHouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pipeline.embedded.clickhouse.engine import Connection, Engine

POLL_S = 0.05
LOW_BYTES_MAX = 256 << 20
LOW_SHARE = 8
"""Little is free below LOW_BYTES_MAX, and below this share of a small disk."""

AGAIN_SHARE = 5 / 4
"""So much more has to be free before parts are merged again: it is not to go to and fro."""

CHECKED_S = 10.0
"""So long after little was free, what was merged is still looked at."""

_CHECK_EVERY_S = 0.5
_NEW_PARTS = (
    b"SELECT database, table, name, bytes_on_disk, path FROM system.parts WHERE active "
    b"AND rows > 0 AND level > 0 AND modification_time >= now() - {seconds:UInt32} FORMAT TSVRaw"
)
_MAY_BE_EMPTY = (".bin", ".idx")
"""Ends of the names of files that are empty in healthy parts as well: of columns that have nothing
but their default, and of text indexes. No others were, of any type, engine or kind of part."""

_CHECK = "CHECK TABLE `{}`.`{}` PART '{}' SETTINGS check_query_single_value_result = 0"


class DiskWatch:
    """Watches the disk of one engine in a thread of its own, from `start` to `close`.

    `on_spoilt` is called in that thread, once, with what is wrong.
    """

    def __init__(self, engine: Engine, folder: Path, on_spoilt: Callable[[str], None]) -> None:
        self._engine = engine
        self._folder = folder
        self._on_spoilt = on_spoilt
        self._closed = threading.Event()
        self._merges = True
        self._thread = threading.Thread(target=self._run, name="disk-watch", daemon=True)

    def start(self) -> None:
        """Never blocks."""
        self._thread.start()

    def close(self) -> None:
        """Blocks for a moment; the engine may be closed then."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_spoilt = False
        while not is_spoilt:
            if is_low(self._folder) or not self._merges:
                # The engine may have no room for what is asked, either; it is asked again.
                with (
                    suppress(ClickHouseError, OSError, RuntimeError),
                    closing(self._engine.connect()) as connection,
                ):
                    is_spoilt = self._until_enough(connection)
            if self._closed.wait(POLL_S):
                return

    def _until_enough(self, connection: Connection) -> bool:
        """Merge nothing until enough is free, and look at what was merged: whether it is spoilt.

        Blocks; raises ClickHouseError and OSError. Until it returns, nothing is merged.
        """
        self._merges = False
        connection.query(b"SYSTEM STOP MERGES")
        left_s = CHECKED_S
        while left_s > 0 and not self._closed.wait(_CHECK_EVERY_S):
            if spoilt := spoilt_parts(connection):
                self._on_spoilt(
                    f"the disk of {self._folder} was full while parts were merged: starting again "
                    f"without {', '.join(spoilt)}, which others are still there for"
                )
                return True
            left_s = CHECKED_S if is_low(self._folder, AGAIN_SHARE) else left_s - _CHECK_EVERY_S
        connection.query(b"SYSTEM START MERGES")
        self._merges = True
        return False


def is_low(folder: Path, share: float = 1.0) -> bool:
    """Whether less than `share` of what is little is free on the folder's disk."""
    found = os.statvfs(folder)
    little = min(LOW_BYTES_MAX, found.f_blocks * found.f_frsize // LOW_SHARE)
    return found.f_bavail * found.f_frsize < little * share


def spoilt_parts(connection: Connection) -> list[str]:
    """Parts that were merged a moment ago and are not on the disk as they should be.

    Blocks; raises OSError. What cannot be asked for is asked for the next time.
    """
    try:
        seconds = {"seconds": str(round(2 * CHECKED_S))}
        rows = connection.query(_NEW_PARTS, parameters=seconds)[0].decode().splitlines()
    except ClickHouseError:
        return []
    found = []
    for row in rows:
        database, table, name, size, path = row.split("\t", 4)
        try:
            files = [entry for entry in os.scandir(path) if entry.is_file()]
            sizes = {entry.name: entry.stat().st_size for entry in files}
        except FileNotFoundError:
            continue  # It was merged on meanwhile.
        if _is_spoilt(sizes) or (
            _may_be_spoilt(sizes, int(size)) and _is_unreadable(connection, database, table, name)
        ):
            found.append(path.rstrip("/"))
    return found


def _is_spoilt(sizes_bytes: Mapping[str, int]) -> bool:
    """A file is empty that never is in a healthy part.

    The engine is not asked: of some of these it needs nothing before the next start, and calls the
    part healthy until then (`columns_substreams.txt`, `metadata_version.txt`,
    `default_compression_codec.txt`). That start would set it aside, when the parts it was made of
    are gone.
    """
    return any(not size and not name.endswith(_MAY_BE_EMPTY) for name, size in sizes_bytes.items())


def _may_be_spoilt(sizes_bytes: Mapping[str, int], size_bytes: int) -> bool:
    """A file is empty that may be, or they are less together than the engine believes.

    To have the engine look costs a read of the whole part, so it looks at these alone.
    """
    sizes = sizes_bytes.values()
    return not all(sizes) or sum(sizes) < size_bytes


def _is_unreadable(connection: Connection, database: str, table: str, name: str) -> bool:
    """Whether the engine itself cannot read the part."""
    try:
        answer, _ = connection.query(_CHECK.format(database, table, name).encode(), "TSVRaw")
    except ClickHouseError:
        return False  # It is gone, or is looked at the next time.
    return any(line.split("\t")[1] == "0" for line in answer.decode().splitlines())
