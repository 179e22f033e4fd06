"""A disk without a free byte: the door refuses as the engine does, and goes on once it has room."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest

from pipeline.embedded.clickhouse.disk_watch import _MAY_BE_EMPTY
from tests.integration.clickhouse.process import ClickHouse
from tests.kit.disks import Disk, small_disk
from tests.kit.door import Door
from tests.kit.processes import ProcessFailedError, wait_until

NOT_ENOUGH_SPACE = "243"
ROWS = b"".join(b"%d\n" % number for number in range(100_000))
INSERT = b"INSERT INTO t FORMAT TabSeparated\n"
TABLE = "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"
WIDE = "min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0"
FILLED = 6
"""So often the disk is filled while parts are merged: without care a few times were enough."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "clickhouse", megabytes=256) as made:
        yield made


def test_an_insert_on_a_full_disk_is_refused_with_a_code_and_works_once_there_is_room(
    disk: Disk,
) -> None:
    with ClickHouse(disk.folder) as door:
        door.rows(TABLE)
        disk.fill()
        refused = door.ask(INSERT + ROWS)
        assert refused.status == 500
        assert refused.headers["X-ClickHouse-Exception-Code"] == NOT_ENOUGH_SPACE
        assert refused.text.startswith("Code: 243. DB::Exception: Not enough space")
        disk.free()
        assert door.ask(INSERT + ROWS).status == 200
        assert door.rows("SELECT count() FROM t") == "100000\n"


def ask(door: Door, statement: str | bytes) -> httpx.Response | None:
    """None when nobody answers; then it is started again, as a supervisor does."""
    try:
        return httpx.post(door.url, content=statement, timeout=30)
    except httpx.TransportError:
        if not door.process.running:
            with suppress(ProcessFailedError):  # Until there is room.
                door.start()
        return None


def read(door: Door, statement: str) -> str:
    answer = ask(door, statement)
    return "" if answer is None or answer.status_code != 200 else answer.text


@pytest.mark.timeout(300)
def test_all_that_was_acknowledged_is_there_although_the_disk_was_full_while_parts_were_merged(
    disk: Disk,
) -> None:
    """Such parts had empty files, and took the place of those they were made of."""
    door, acknowledged = Door(disk.folder.parent), set[int]()
    is_over = threading.Event()
    filling = threading.Thread(target=fill_and_free, args=(disk, is_over))
    door.start()
    try:
        ask(door, TABLE)
        filling.start()
        for first in count(step=200):
            numbers = range(first, first + 200)
            answer = ask(door, INSERT + b"".join(b"%d\n" % number for number in numbers))
            if answer is not None and answer.status_code == 200:
                acknowledged.update(numbers)
            if is_over.wait(0.02):
                break

        def is_there() -> bool:
            found = {int(line) for line in read(door, "SELECT a FROM t").split()}
            return acknowledged <= found

        wait_until(is_there, "all that was acknowledged can be read", poll_s=0.5)
        assert acknowledged
    finally:
        is_over.set()
        door.kill()


def fill_and_free(disk: Disk, is_over: threading.Event) -> None:
    """While somebody writes, so that parts are being merged."""
    for _ in range(FILLED):
        is_over.wait(1.5)
        disk.fill()
        is_over.wait(1.5)
        disk.free()
    is_over.set()


@pytest.mark.parametrize("name", ["data.bin", "columns_substreams.txt", "metadata_version.txt"])
def test_a_part_that_a_merge_spoilt_makes_way_for_those_it_was_made_of(
    disk: Disk, name: str
) -> None:
    """The engine itself calls it healthy until the next start, where a text file is empty."""
    door = Door(disk.folder.parent)
    door.start()
    try:
        ask(door, TABLE)
        for _ in range(2):
            ask(door, INSERT + ROWS)
        ask(door, "OPTIMIZE TABLE t")
        [path] = read(door, "SELECT path FROM system.parts WHERE active AND table = 't'").split()
        (Path(path) / name).write_bytes(b"")
        disk.fill()
        assert door.process.wait() == 1
        assert "was full while parts were merged: starting again" in door.process.output()
        disk.free()
        door.start()
        assert read(door, "SELECT count() FROM t") == "200000\n"
    finally:
        door.kill()


def test_a_part_with_nothing_but_defaults_in_a_column_is_not_taken_for_spoilt(disk: Disk) -> None:
    """Such a column's file is empty, as it is in most parts of cells."""
    door = Door(disk.folder.parent)
    door.start()
    try:
        ask(door, f"{TABLE.replace('a UInt64', 'a UInt64, n UInt64')} SETTINGS {WIDE}")
        for _ in range(2):
            ask(door, "INSERT INTO t SELECT number, 0 FROM numbers(100000)")
        ask(door, "OPTIMIZE TABLE t")
        [path] = read(door, "SELECT path FROM system.parts WHERE active AND table = 't'").split()
        assert not all(file.stat().st_size for file in Path(path).iterdir())
        disk.fill()
        with pytest.raises(ProcessFailedError):
            door.process.wait(timeout_s=3)
        disk.free()
        assert read(door, "SELECT count() FROM t") == "200000\n"
    finally:
        door.kill()


@pytest.mark.parametrize("settings", [WIDE, "min_bytes_for_wide_part = 1000000000"])
def test_of_a_healthy_part_only_columns_and_indexes_have_empty_files(
    door: ClickHouse, database: str, settings: str
) -> None:
    """An engine that left others empty would be started again and again."""
    columns = {
        "n": ("UInt64", "0"),
        "s": ("String", "''"),
        "maybe": ("Nullable(UInt64)", "NULL"),
        "labels": ("Map(String, UInt64)", "map()"),
        "list": ("Array(Nullable(String))", "[]"),
        "word": ("LowCardinality(String)", "''"),
        "most": ("SimpleAggregateFunction(max, UInt64)", "0"),
        "pair": ("Tuple(x UInt64, y Nullable(String))", "(0, NULL)"),
    }
    made = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    defaults = ", ".join(default for _, default in columns.values())
    words = "INDEX words s TYPE text(tokenizer = 'splitByNonAlpha')"
    least = "INDEX least n TYPE minmax GRANULARITY 1"
    door.rows(
        f"CREATE TABLE t (a UInt64, {made}, {words}, {least}) ENGINE = MergeTree ORDER BY a "
        f"SETTINGS {settings}",
        database=database,
    )
    for _ in range(2):
        insert = f"INSERT INTO t SELECT number, {defaults} FROM numbers(10000)"
        door.rows(insert, database=database)
    door.rows("OPTIMIZE TABLE t FINAL", database=database)
    active = "SELECT path FROM system.parts WHERE active AND table = 't' AND database = "
    [path] = door.rows(f"{active}'{database}'").split()
    empty = {file.name for file in Path(path).iterdir() if not file.stat().st_size}
    assert empty
    assert {name for name in empty if not name.endswith(_MAY_BE_EMPTY)} == set()


def test_what_was_merged_is_kept_for_two_minutes(tmp_path: Path) -> None:
    """By itself chDB removes it within half a minute: nothing is left then of a spoilt part."""
    with ClickHouse(tmp_path / "data") as door:
        kept = "SELECT value FROM system.merge_tree_settings WHERE name = 'old_parts_lifetime'"
        assert door.rows(kept) == "120\n"
