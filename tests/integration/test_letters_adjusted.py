"""A correction that ClickHouse refused is put back as the log has it."""

from datetime import UTC, datetime
from pathlib import Path

from pipeline.clickhouse import connect
from pipeline.letters.adjusted import AdjustmentRows
from pipeline.letters.row_table import ClickHouseRowTable
from pipeline.letters.rows import SetAsideAdjustment
from schemas.addresses import ClickHouseAddress
from tests.integration.clickhouse.process import ClickHouse
from tests.kit.tables import empty_tables

MADE = datetime(2026, 3, 19, 9, 0, 1, 123_000, tzinfo=UTC)
WINDOW = datetime(2026, 3, 19, 9, tzinfo=UTC)


def adjustment(id_: str, before: int | None) -> SetAsideAdjustment:
    return SetAsideAdjustment(
        build=1,
        counter="likes:a",
        id=id_,
        region="eu",
        grain="1h",
        window=WINDOW,
        by=-2,
        who="ann",
        why="fraud",
        before=before,
        after=None,
        at=MADE,
        log_time=MADE,
        shard=3,
        offset=14,
    )


def test_a_refused_adjustment_is_put_back_to_the_millisecond_and_twice_is_once(
    tmp_path: Path,
) -> None:
    with ClickHouse(tmp_path) as door:
        address = ClickHouseAddress(f"http://{door.host}:{door.port}")
        client = connect(address)
        empty_tables(client)
        table = ClickHouseRowTable(address)
        rows = [adjustment("one", 7), adjustment("two", None)]
        for _ in range(2):
            assert AdjustmentRows(table).put_back(rows) == {}
        table.close()
        found = client.query(
            "SELECT id, `by`, before, after, toUnixTimestamp64Milli(at), "
            "toUnixTimestamp64Milli(log_time), shard, `offset`, toUnixTimestamp(window) "
            "FROM tally.adjustments FINAL ORDER BY id"
        ).result_rows
        client.close()
    made_ms = int(MADE.timestamp() * 1000)
    rest = (made_ms, made_ms, 3, 14, int(WINDOW.timestamp()))
    assert [tuple(row) for row in found] == [
        ("one", -2, 7, None, *rest),
        ("two", -2, None, None, *rest),
    ]
