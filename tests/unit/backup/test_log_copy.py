"""The log's part of a backup, taken of a log that is at work."""

import io
import os
import sqlite3
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.backup.archive import ArchiveWriter
from pipeline.backup.log_copy import LogCopy, TopicsChangedError
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.copying import opened, read_meta
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.meta import FORMAT, CommittedOffset
from pipeline.embedded.log.segment import segment_path
from pipeline.errors import OperatorError, TryAgainError
from tests.unit.embedded_log.batches import make_batch, make_values
from tests.unit.embedded_log.test_cleaner import HandClock


@contextmanager
def broker_on(folder: Path) -> Iterator[Broker]:
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder, HandClock(), Fsync.SECOND)
    try:
        yield broker
    finally:
        broker.stop()


class Copying:
    """An archive in memory, and the folder it becomes."""

    def __init__(self, data: Path) -> None:
        self._file = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._file, mode="w")
        self.copy = LogCopy(data / "log", ArchiveWriter(self._tar, lambda _: None))

    def into(self, folder: Path) -> None:
        self._tar.close()
        self._file.seek(0)
        with tarfile.open(fileobj=self._file) as tar:
            tar.extractall(folder, filter="data")


async def test_a_copy_is_a_log_with_the_same_records_and_offsets(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        plain = broker.create_topic("plain", 2, {"segment.bytes": "1000"})
        keyed = broker.create_topic("keyed", 1, {"cleanup.policy": "compact"})
        for _ in range(30):
            plain.partitions[1].append(make_values(3), 5)
        keyed.partitions[0].append(make_batch([(b"k", b"v")]), 5)
        broker.meta.commit_offsets("g", [CommittedOffset("plain", 1, 7, 0, "note")])
        copying = Copying(tmp_path)
        copying.copy.take_compacted()
        plain.partitions[1].append(make_values(1), 5)
        keyed.partitions[0].append(make_batch([(b"later", b"v")]), 5)
        copying.copy.take_the_rest()
    copying.into(tmp_path / "copy")
    with broker_on(tmp_path / "copy" / "log") as again:
        # The increments as they were at the end, the changelog as it was at the beginning.
        assert [p.end_offset for p in again.topics["plain"].partitions] == [0, 91]
        assert [p.end_offset for p in again.topics["keyed"].partitions] == [1]
        assert again.meta.offsets("g")["plain", 1].offset == 7


def test_ids_of_producers_that_came_meanwhile_are_not_given_out_again(tmp_path: Path) -> None:
    """Else a new producer's first batch would pass for a repeat of theirs, and not be stored."""
    with broker_on(tmp_path / "log") as broker:
        topic = broker.create_topic("plain", 1, {})
        broker.meta.next_producer_id()
        copying = Copying(tmp_path)
        for _ in range(1500):
            producer_id = broker.meta.next_producer_id()
        batch = make_values(1, producer_id=producer_id, epoch=0, sequence=0)
        topic.partitions[0].append(batch, 5)
        copying.copy.take_the_rest()
    copying.into(tmp_path / "copy")
    with broker_on(tmp_path / "copy" / "log") as again:
        partition = again.topics["plain"].partitions[0]
        for _ in range(1600):
            new = again.meta.next_producer_id()
            partition.append(make_values(1, producer_id=new, epoch=0, sequence=0), 5)
        assert partition.end_offset == 1 + 1600


def test_topics_that_change_meanwhile_are_told(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        topic = broker.create_topic("plain", 1, {})
        grown = Copying(tmp_path)
        broker.grow_topic(topic, 2)
        with pytest.raises(TopicsChangedError):
            grown.copy.take_the_rest()
        deleted = Copying(tmp_path)
        broker.delete_topic(topic)
        with pytest.raises(TopicsChangedError):
            deleted.copy.take_the_rest()


async def test_records_that_retention_took_before_they_were_copied_are_told(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        topic = broker.create_topic("plain", 1, {"segment.bytes": "1000"})
        for _ in range(30):
            topic.partitions[0].append(make_values(3), 5)
        broker.meta.commit_offsets("g", [CommittedOffset("plain", 0, 7, 0, None)])
        copying = Copying(tmp_path)
        broker.delete_records(topic, 0, 80)
        with pytest.raises(TryAgainError, match="retention deleted records of plain, partition 0"):
            copying.copy.take_the_rest()


def test_files_that_are_being_replaced_are_waited_for(tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"old")
    swap = tmp_path / f"{0:020d}-{0:020d}.swap"
    swap.write_bytes(b"new")
    timer = threading.Timer(0.2, lambda: swap.rename(segment_path(tmp_path, 0)))
    timer.start()
    with opened(tmp_path) as files:
        assert [os.pread(one.descriptor, one.size, 0) for one in files] == [b"new"]
    timer.join()


def test_a_file_that_is_deleted_while_it_is_open_can_be_read(tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"old")
    with opened(tmp_path) as files:
        segment_path(tmp_path, 0).unlink()
        assert [os.pread(one.descriptor, one.size, 0) for one in files] == [b"old"]


def test_a_newer_logs_database_is_refused_by_the_log_and_by_a_copy(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log"):
        pass
    database = sqlite3.connect(tmp_path / "log" / "meta.sqlite")
    assert database.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    database.execute(f"PRAGMA user_version={FORMAT + 1}")
    database.close()
    expected = f"is of log format {FORMAT + 1}, written by a newer Tally; this one reads format"
    with pytest.raises(OperatorError, match=expected):
        Broker(tmp_path / "log", HandClock(), Fsync.SECOND)
    with pytest.raises(OperatorError, match=expected):
        read_meta(tmp_path / "log")
