"""Rows that a table refuses are told apart from a table that takes nothing, block after block."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pipeline.errors import OperatorError
from pipeline.writes.inserter import Inserter
from schemas.addresses import ClickHouseAddress
from tests.integration.clickhouse.process import ClickHouse


@pytest.fixture
def table(door: ClickHouse, database: str) -> str:
    door.rows(
        "CREATE TABLE t (a Int64, CONSTRAINT positive CHECK a > 0) ENGINE = MergeTree ORDER BY a",
        database=database,
    )
    return f"{database}.t"


@pytest.fixture
def inserter(door: ClickHouse) -> Iterator[Inserter]:
    inserter = Inserter(ClickHouseAddress(f"http://{door.host}:{door.port}"))
    yield inserter
    inserter.close()


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


async def test_a_block_of_refused_rows_alone_follows_one_in_which_some_were_taken(
    door: ClickHouse, table: str, inserter: Inserter
) -> None:
    assert set(await inserter.insert_taken(table, rows(1, -1, 2))) == {1}
    assert set(await inserter.insert_taken(table, rows(-2, -3))) == {0, 1}
    assert door.rows(f"SELECT DISTINCT a FROM {table} ORDER BY a FORMAT CSV").split() == ["1", "2"]


async def test_rows_are_not_blamed_while_the_table_never_took_one(
    table: str, inserter: Inserter
) -> None:
    with pytest.raises(OperatorError, match="takes nothing"):
        await inserter.insert_taken(table, rows(-1, -2))
