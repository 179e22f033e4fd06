"""What survives beside the segments: topics, their settings, groups, committed offsets. SQLite.

A call returns after its transaction is written through to the operating system (`second`) or to the
disk (`always`). Calls may come from several threads; each is one transaction.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.errors import OperatorError

FORMAT = 1
"""Of the log's folder: this database, in which it is SQLite's user_version, and what groups and
segments are kept as. A database from before it was told has 0, and the same form."""

PRODUCER_ID_BLOCK = 1000
PRODUCER_IDS_GIVEN_MAX = 2**62

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS topics (
    uid INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    partitions INTEGER NOT NULL, settings TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS starts (
    uid INTEGER NOT NULL, part INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (uid, part)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS offsets (
    grp TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL, offset INTEGER NOT NULL,
    epoch INTEGER NOT NULL, note TEXT, PRIMARY KEY (grp, topic, part)) STRICT, WITHOUT ROWID;
"""


class TopicRow(NamedTuple):
    uid: int
    name: str
    partitions: int
    settings: dict[str, str]


def topic_folder(folder: Path, row: TopicRow) -> Path:
    """Where a topic's partitions are. The number makes the folder of one that was deleted and made
    again another one.
    """
    return folder / "topics" / f"{row.uid}-{row.name[:200]}"


class CommittedOffset(NamedTuple):
    """A group's place in a partition. `note` is the client's own text."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    note: str | None


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raises OperatorError for a database of a form that this log does not read."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > FORMAT:
        raise OperatorError(
            f"{path} is of log format {found}, written by a newer Tally; this one reads format "
            f"{FORMAT}: use the version that wrote it"
        )


class Meta:
    """All methods block briefly on the file and may raise sqlite3.Error when the disk is full."""

    def __init__(self, path: Path, *, sync_each_commit: bool) -> None:
        """Raises OperatorError for a file that a newer Tally wrote, and leaves it alone."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            check_format(self._db, path)
        except OperatorError:
            self._db.close()
            raise
        self._db.execute("PRAGMA journal_mode=WAL")
        self._usual = "FULL" if sync_each_commit else "NORMAL"
        self._db.execute(f"PRAGMA synchronous={self._usual}")
        self._db.executescript(_SCHEMA)
        # Nothing is written where nothing is new: a log must start on a disk that is full.
        if self._db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            self._db.execute(f"PRAGMA user_version={FORMAT}")
        self._producer_id = self._producer_id_end = 0

    def close(self) -> None:
        """Waits for a transaction that another thread is in."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self, *, sync: bool = False) -> Iterator[sqlite3.Connection]:
        """With `sync` it is on the disk when this returns, whatever the setting."""
        with self._lock:
            if sync:
                self._db.execute("PRAGMA synchronous=FULL")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    # SQLite has rolled back by itself after some errors, a full disk among them.
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
            finally:
                if sync:
                    self._db.execute(f"PRAGMA synchronous={self._usual}")

    def fact(self, name: str, default: str) -> str:
        """A named value, set to `default` when it is asked for the first time."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, default))
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0])

    def next_producer_id(self) -> int:
        """A producer id that was never given out before; ids are reserved in blocks."""
        if self._producer_id == self._producer_id_end:
            first = int(self.fact("producer_id", "1000"))
            self._reserve_producer_ids(first + PRODUCER_ID_BLOCK)
            self._producer_id, self._producer_id_end = first, first + PRODUCER_ID_BLOCK
        self._producer_id += 1
        return self._producer_id - 1

    def pass_producer_ids(self, met: Iterable[int]) -> None:
        """Give out only ids above those that were met in the log. To be called before any is given.

        Ids that no log comes to in its life are clients' own inventions, and are left aside: there
        might be none above them.
        """
        last = max((one for one in met if one < PRODUCER_IDS_GIVEN_MAX), default=-1)
        if int(self.fact("producer_id", "1000")) <= last:
            self._reserve_producer_ids(last + 1)

    def _reserve_producer_ids(self, end: int) -> None:
        """Synced: records with these ids may be on the disk before the next checkpoint, and an id
        that is given out again makes a new producer's batches pass for repeats of them.
        """
        with self._transaction(sync=True) as db:
            db.execute("UPDATE facts SET value = ? WHERE name = 'producer_id'", (str(end),))

    def topics(self) -> list[TopicRow]:
        rows = self._db.execute("SELECT uid, name, partitions, settings FROM topics ORDER BY uid")
        return [
            TopicRow(u, n, p, msgspec.json.decode(s, type=dict[str, str])) for u, n, p, s in rows
        ]

    @contextmanager
    def adding_topic(
        self, name: str, partitions: int, settings: dict[str, str]
    ) -> Iterator[TopicRow]:
        """A topic that is there if what is done inside succeeds, and not if it raises.

        Synced: a folder whose topic is not known is removed at the next start.
        """
        with self._transaction(sync=True) as db:
            uid = db.execute(
                "INSERT INTO topics (name, partitions, settings) VALUES (?, ?, ?)",
                (name, partitions, msgspec.json.encode(settings).decode()),
            ).lastrowid
            assert uid is not None
            yield TopicRow(uid, name, partitions, settings)

    def add_topic(self, name: str, partitions: int, settings: dict[str, str]) -> TopicRow:
        """As `adding_topic`, with nothing to do inside."""
        with self.adding_topic(name, partitions, settings) as row:
            return row

    @contextmanager
    def growing_topic(self, uid: int, partitions: int) -> Iterator[None]:
        """The topic has so many partitions if what is done inside succeeds. Synced: records in a
        partition that the next start does not know of could not be read.
        """
        with self._transaction(sync=True) as db:
            db.execute("UPDATE topics SET partitions = ? WHERE uid = ?", (partitions, uid))
            yield

    def configure_topic(self, uid: int, settings: dict[str, str]) -> None:
        with self._transaction() as db:
            db.execute(
                "UPDATE topics SET settings = ? WHERE uid = ?",
                (msgspec.json.encode(settings).decode(), uid),
            )

    def remove_topic(self, uid: int, name: str) -> None:
        """The topic, the starts of its partitions, and what groups committed for it."""
        with self._transaction(sync=True) as db:
            db.execute("DELETE FROM topics WHERE uid = ?", (uid,))
            db.execute("DELETE FROM starts WHERE uid = ?", (uid,))
            db.execute("DELETE FROM offsets WHERE topic = ?", (name,))

    def starts(self, uid: int) -> dict[int, int]:
        """First readable offsets that DeleteRecords asked for, by partition."""
        rows = self._db.execute("SELECT part, offset FROM starts WHERE uid = ?", (uid,))
        return dict(rows.fetchall())

    def set_start(self, uid: int, partition: int, offset: int) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO starts VALUES (?, ?, ?)", (uid, partition, offset))

    def groups(self) -> dict[str, bytes]:
        return dict(self._db.execute("SELECT name, state FROM groups").fetchall())

    def save_group(self, name: str, state: bytes) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO groups VALUES (?, ?)", (name, state))

    def remove_group(self, name: str) -> None:
        """The group and its offsets."""
        with self._transaction() as db:
            db.execute("DELETE FROM groups WHERE name = ?", (name,))
            db.execute("DELETE FROM offsets WHERE grp = ?", (name,))

    def commit_offsets(self, group: str, offsets: Iterable[CommittedOffset]) -> None:
        self.commit_valid_offsets(group, lambda: offsets)

    def commit_valid_offsets(
        self, group: str, valid: Callable[[], Iterable[CommittedOffset]]
    ) -> None:
        """Commit what `valid` gives. It is asked inside of the transaction: no other call has its
        effect between the two.
        """
        with self._transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?, ?)",
                [(group, *offset) for offset in valid()],
            )

    def offsets(self, group: str) -> dict[tuple[str, int], CommittedOffset]:
        with self._lock:
            rows = self._db.execute(
                "SELECT topic, part, offset, epoch, note FROM offsets WHERE grp = ?", (group,)
            ).fetchall()
        return {(row[0], row[1]): CommittedOffset(*row) for row in rows}

    def groups_with_offsets(self) -> set[str]:
        with self._lock:
            rows = self._db.execute("SELECT DISTINCT grp FROM offsets").fetchall()
        return {row[0] for row in rows}
