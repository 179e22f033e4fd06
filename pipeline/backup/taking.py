"""Taking a backup of a data folder, whether everything runs on it or nothing.

While it runs, parts are taken one after the other, and their order is what makes them fit:

    1  the log's meta.sqlite              committed offsets
    2  compacted topics                   changelogs: cells, ids, positions
    3  ClickHouse, frozen at one moment   what was flushed
    4  all other topics                   the increments

A worker writes in the other direction: increments are in the log, then cells in ClickHouse, then
the changelog, then the offset. So each part holds everything that the parts before it rest on.
After a restore a worker resumes at a position of the changelog (2), all that it may forget about is
in ClickHouse (3), and what ClickHouse has beyond is counted again from the log (4), to the same
cells, as after a kill. ClickHouse before the changelog would lack cells of closed slots, which
nobody writes again; ClickHouse after the increments would hold counts of records that are not in
the copy, whose offsets others would get.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline import __version__
from pipeline.backup import clickhouse_copy, log_copy, other_files
from pipeline.backup.archive import writing
from pipeline.backup.manifest import FORMAT, Manifest
from pipeline.backup.other_files import LOCK
from pipeline.embedded.log.recovery import finish_swaps
from pipeline.errors import OperatorError, TryAgainError
from pipeline.local import claim, data_folder
from pipeline.local.data_folder import MARKER, Marker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipeline.clock import Clock

TRIES = 3
"""A topic that is made, grown or deleted meanwhile makes the backup begin again."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that was made."""

    path: Path
    manifest: Manifest
    size_bytes: int
    held_ms: float
    """For how long statements that write to ClickHouse had to wait."""


class Tell:
    """What a backup tells on its way; this one is silent."""

    def step(self, what: str) -> None:
        """It begins with something."""

    def copied(self, count: int) -> None:
        """So many bytes more."""


def take_backup(data: Path, target: Path, clock: Clock, tell: Tell) -> Taken:
    """A backup of `data` at `target`, or, if that is a folder, in it under a name by the time.

    Blocks for as long as it copies. What was acknowledged before the call is in it. Raises
    OperatorError when there is nothing to copy, the place is taken or the disk refuses, and
    TryAgainError when a server is just being started or topics change all the time. In those cases
    nothing is at `target`, and after a kill nothing that is not whole.
    """
    marker = _checked(data)
    target = _place(data, target, clock)
    with claim.claimed(
        data,
        LOCK,
        unusable=f"cannot use {data}: {{why}}",
        in_use=f"process {{holder}} takes a backup of {data} already: wait until it has ended",
    ):
        for left in range(TRIES - 1, -1, -1):
            try:
                return _take(data, target, marker, clock, tell)
            except log_copy.TopicsChangedError as error:
                if not left:
                    raise TryAgainError(f"{error}: try again when it is done") from error
                tell.step(f"{error}: beginning again")
    raise AssertionError


def _take(data: Path, target: Path, marker: Marker, clock: Clock, tell: Tell) -> Taken:
    began_ms = clock.now_ms()
    with _stopped(data) as is_stopped, writing(target, tell.copied) as archive:
        if is_stopped:
            finish_swaps(data / "log")
        archive.add_bytes(MARKER, data_folder.encode(marker))
        log = log_copy.LogCopy(data / "log", archive)
        tell.step("changelogs")
        log.take_compacted()
        tell.step("ClickHouse")
        with clickhouse_copy.tables(data / "clickhouse", is_stopped=is_stopped) as tables:
            tell.step("increments")
            log.take_the_rest()
            tell.step("tables")
            clickhouse_copy.add(tables, archive)
        tell.step("other files")
        other_files.add(data, archive)
        made = Manifest(
            FORMAT, __version__, marker, began_ms, clock.now_ms(), not is_stopped, archive.items
        )
        archive.end(made)
    return Taken(target, made, target.stat().st_size, tables.held_ms)


def _checked(data: Path) -> Marker:
    if not (data / "log").is_dir() or not (data / "clickhouse").is_dir():
        raise OperatorError(
            f"{data} is no data folder of `tally up`: choose it with --data (a Kafka or a "
            "ClickHouse of your own is copied by its own means)"
        )
    found = data_folder.read_marker(data)
    if found is None:
        return data_folder.present()
    data_folder.check(found, str(data))
    return found


def _place(data: Path, target: Path, clock: Clock) -> Path:
    if target.is_dir():
        target = target / f"tally-{clock.now_ms() // 1000}.tar"
    if not target.parent.is_dir():
        raise OperatorError(f"{target.parent} is no folder: make it, or choose another place")
    if target.exists():
        raise OperatorError(f"{target} is there already: choose another name")
    if data.resolve() in target.resolve().parents:
        raise OperatorError(f"{target} lies in the folder it would be a copy of: choose another")
    return target


@contextmanager
def _stopped(data: Path) -> Iterator[bool]:
    """Whether nobody runs on the folder; then nobody can begin to until the block ends."""
    with ExitStack() as held:
        try:
            held.enter_context(_claimed(data, "lock"))
        except OperatorError:
            yield False
            return
        # Parts that run without `tally up`, or that outlive it for a moment.
        held.enter_context(_claimed(data / "log", "lock"))
        held.enter_context(_claimed(data / "clickhouse", "door.lock"))
        yield True


def _claimed(folder: Path, lock: str) -> AbstractContextManager[None]:
    return claim.claimed(
        folder,
        lock,
        unusable=f"cannot use {folder}: {{why}}",
        in_use=f"{folder} is in use by process {{holder}}, and {folder.parent} by none: stop it, "
        "or wait until it has ended",
    )
