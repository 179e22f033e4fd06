"""Reading a log's folder from another process, while the log runs or not, for a copy of it.

Nothing is asked of the log: its segments only grow, are replaced whole, or go, and SQLite lets
others read. What is taken of a partition is a beginning of it, up to some moment of the taking; a
batch that was being written then is cut off by the copy's first start, as after a kill.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.embedded.log.meta import CommittedOffset, TopicRow, check_format, topic_folder
from pipeline.embedded.log.topic_config import TopicConfig
from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

META = "meta.sqlite"
TRIES = 200
PAUSE_S = 0.05
"""Between two looks at a partition whose files are being replaced: a compaction's last step."""

_PRODUCER_ID = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'producer_id'"


@dataclass(frozen=True, slots=True)
class MetaCopy:
    """What meta.sqlite held at one moment; `database` is all of it, as a file."""

    database: bytes
    topics: tuple[TopicRow, ...]
    offsets: tuple[tuple[str, CommittedOffset], ...]
    """With their groups."""
    producer_id: int
    """Greater than every id that was given out before; 0 if none was."""

    def with_producer_id(self, producer_id: int) -> bytes:
        """The database, which will give out ids from this one on.

        Records that are copied later than the database may be of producers it has not met. Were
        their ids given out again, the log would take a new producer's first batches for repeats of
        what they wrote, and answer without storing them.
        """
        if producer_id <= self.producer_id:
            return self.database
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.deserialize(_without_wal(self.database))
            db.execute(
                "INSERT OR REPLACE INTO facts VALUES ('producer_id', ?)", (str(producer_id),)
            )
            return db.serialize()


def read_meta(folder: Path) -> MetaCopy:
    """Blocks briefly. Raises OperatorError where there is no log or a newer Tally's, TryAgainError
    if it is busy.
    """
    path = folder / META
    if not path.exists():
        raise OperatorError(f"{folder} holds no log: there is no {META} in it")
    try:
        with (
            closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as source,
            closing(sqlite3.connect(":memory:", isolation_level=None)) as copy,
        ):
            check_format(source, path)
            source.backup(copy)
            topics = copy.execute("SELECT uid, name, partitions, settings FROM topics ORDER BY uid")
            offsets = copy.execute("SELECT grp, topic, part, offset, epoch, note FROM offsets")
            return MetaCopy(
                copy.serialize(),
                tuple(
                    TopicRow(uid, name, count, msgspec.json.decode(settings, type=dict[str, str]))
                    for uid, name, count, settings in topics
                ),
                tuple((row[0], CommittedOffset(*row[1:])) for row in offsets),
                int((copy.execute(_PRODUCER_ID).fetchone() or (0,))[0]),
            )
    except sqlite3.Error as error:
        raise TryAgainError(f"{path} cannot be read now: {error}") from error


def _without_wal(database: bytes) -> bytes:
    """The same pages, marked as those of a database without a write-ahead log (bytes 18, 19)."""
    return database[:18] + b"\x01\x01" + database[20:]


def is_compacted(topic: TopicRow) -> bool:
    return TopicConfig(topic.settings).is_compacted


def partition_folders(folder: Path, topic: TopicRow) -> list[Path]:
    """Where the partitions of a topic are, by number."""
    parent = topic_folder(folder, topic)
    return [parent / str(number) for number in range(topic.partitions)]


def first_offset(partition: Path) -> int:
    """Where its first segment begins; 0 where there is none."""
    return min((int(path.stem) for path in partition.glob("*.log")), default=0)


class OpenFile(NamedTuple):
    """A file of a partition: to be read up to `size`, however much longer it is by then."""

    path: Path
    descriptor: int
    size: int


@contextmanager
def opened(partition: Path) -> Iterator[list[OpenFile]]:
    """The partition's segments and sidecars, as they belong together; closed on the way out.

    A file that the log deletes meanwhile can be read to its end. Blocks while a compaction puts its
    files in place. Raises TryAgainError when the folder does not come to rest, or is gone.
    """
    for _ in range(TRIES):
        with ExitStack() as held:
            before = _listed(partition)
            if before is None:
                time.sleep(PAUSE_S)
                continue
            try:
                descriptors = {name: _opened(held, partition / name) for name in before}
            except FileNotFoundError:
                continue
            inodes = {name: os.fstat(one).st_ino for name, one in descriptors.items()}
            if not before == inodes == _listed(partition):
                continue
            # Sizes come last: of the segments that were there at one moment, only the last grows.
            yield [
                OpenFile(partition / name, one, os.fstat(one).st_size)
                for name, one in sorted(descriptors.items())
            ]
            return
    raise TryAgainError(f"{partition} is being changed all the time: try again")


def _listed(partition: Path) -> dict[str, int] | None:
    """Inodes by name; None while a compacted file is being put in the place of others."""
    found: dict[str, int] = {}
    try:
        with os.scandir(partition) as entries:
            for entry in entries:
                stem, _, suffix = entry.name.partition(".")
                if suffix == "swap":
                    return None
                if suffix in ("log", "meta") and stem.isdigit():
                    found[entry.name] = entry.inode()
    except FileNotFoundError:
        raise TryAgainError(f"{partition} was deleted meanwhile: try again") from None
    return found


def _opened(held: ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    return descriptor
