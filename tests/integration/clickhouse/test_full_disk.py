"""A disk without a free byte: the door refuses as the engine does, and goes on once it has room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.clickhouse.process import ClickHouse
from tests.kit.disks import Disk

NOT_ENOUGH_SPACE = "243"
ROWS = b"".join(b"%d\n" % number for number in range(100_000))
INSERT = b"INSERT INTO t FORMAT TabSeparated\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "data", megabytes=256)
    if (why := made.mount()) is not None:
        pytest.skip(why)
    try:
        yield made
    finally:
        made.unmount()


def test_an_insert_on_a_full_disk_is_refused_with_a_code_and_works_once_there_is_room(
    disk: Disk,
) -> None:
    with ClickHouse(disk.folder) as door:
        door.rows("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        disk.fill()
        refused = door.ask(INSERT + ROWS)
        assert refused.status == 500
        assert refused.headers["X-ClickHouse-Exception-Code"] == NOT_ENOUGH_SPACE
        assert refused.text.startswith("Code: 243. DB::Exception: Not enough space")
        disk.free()
        assert door.ask(INSERT + ROWS).status == 200
        assert door.rows("SELECT count() FROM t") == "100000\n"
