"""The watch over the disk goes on whatever is refused, and merges begin again."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from pipeline.embedded.clickhouse import disk_watch
from pipeline.embedded.clickhouse.counts import Counts
from pipeline.embedded.clickhouse.disk_watch import DiskWatch, spoilt_parts
from pipeline.embedded.clickhouse.engine import Engine
from pipeline.embedded.clickhouse.errors import ClickHouseError
from tests.kit.processes import wait_until

STOP, START = b"SYSTEM STOP MERGES", b"SYSTEM START MERGES"


class Connection:
    """To an engine that refuses some statements for a while, and has one part in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refuses: list[bytes] = []
        self.said: list[bytes] = []
        self.check = b"all_1_2_1\t1\t\n"

    def connect(self) -> "Connection":
        return self

    def close(self) -> None:
        """It is one for all."""

    def query(self, sql: bytes, *_: object, **__: object) -> tuple[bytes, Counts]:
        if sql in self.refuses:
            self.refuses.remove(sql)
            raise ClickHouseError(241, "Memory limit exceeded")
        self.said.append(sql)
        if b"system.parts" in sql:
            return b"tally\tcells_1m\tall_1_2_1\t3\t%s/\n" % str(self.folder).encode(), Counts()
        return self.check if sql.startswith(b"CHECK") else b"", Counts()


@contextmanager
def watching(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The disk is low until the event is set."""
    enough = threading.Event()
    monkeypatch.setattr(disk_watch, "is_low", lambda *_: not enough.is_set())
    monkeypatch.setattr(disk_watch, "_CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(disk_watch, "CHECKED_S", 0.05)
    watch = DiskWatch(cast("Engine", connection), connection.folder, print)
    watch.start()
    try:
        yield enough
        assert watch._thread.is_alive()
    finally:
        watch.close()


def test_a_system_without_files_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = os.scandir, [2]

    def scandir(path: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path)

    connection = Connection(tmp_path)
    monkeypatch.setattr(os, "scandir", scandir)
    with watching(connection, monkeypatch) as enough:
        wait_until(lambda: failures == [0], "it goes on")
        enough.set()
        wait_until(lambda: START in connection.said, "merges begin again")


def test_merges_begin_again_though_that_was_refused_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(tmp_path)
    connection.refuses = [START]
    with watching(connection, monkeypatch) as enough:
        wait_until(lambda: STOP in connection.said, "nothing is merged")
        enough.set()
        wait_until(lambda: START in connection.said, "merges begin again")


@pytest.mark.parametrize("name", ["n.bin", "n.sparse.idx.bin", "skp_idx_words.pst.idx"])
def test_a_file_that_may_be_empty_is_a_suspicion_and_the_engine_has_the_last_word(
    tmp_path: Path, name: str
) -> None:
    """Columns with nothing but their default are in empty files, and so are parts of indexes."""
    connection = Connection(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"data")
    assert spoilt_parts(cast("Any", connection)) == []
    assert not any(said.startswith(b"CHECK") for said in connection.said)
    (tmp_path / name).write_bytes(b"")
    assert spoilt_parts(cast("Any", connection)) == []
    connection.check = b"all_1_2_1\t0\tCode: 228. Unexpected uncompressed size of a file\n"
    assert spoilt_parts(cast("Any", connection)) == [str(tmp_path)]
    expected = b"CHECK TABLE `tally`.`cells_1m` PART 'all_1_2_1' "
    assert connection.said[-1].startswith(expected)


@pytest.mark.parametrize(
    "name", ["columns_substreams.txt", "metadata_version.txt", "default_compression_codec.txt"]
)
def test_a_file_that_is_never_empty_is_enough_and_the_engine_is_not_asked(
    tmp_path: Path, name: str
) -> None:
    """It called such parts healthy, and their rows were gone with the next start."""
    connection = Connection(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"data")
    (tmp_path / "n.bin").write_bytes(b"")
    (tmp_path / name).write_bytes(b"")
    assert spoilt_parts(cast("Any", connection)) == [str(tmp_path)]
    assert not any(said.startswith(b"CHECK") for said in connection.said)


def test_a_part_that_is_less_than_the_engine_believes_is_a_suspicion(tmp_path: Path) -> None:
    connection = Connection(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"d")
    assert spoilt_parts(cast("Any", connection)) == []
    assert connection.said[-1].startswith(b"CHECK")
    connection.check = b"all_1_2_1\t0\tCode: 226. Size of file is wrong\n"
    assert spoilt_parts(cast("Any", connection)) == [str(tmp_path)]
