"""What the reference reads out of the SQL files is what a ClickHouse has that ran them."""

from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver import Client

from pipeline.reference.ddl import relations
from schemas.migrate import migrate
from tests.kit.door import Door


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    door = Door(tmp_path)
    door.start()
    try:
        made = clickhouse_connect.get_client(dsn=door.url)
        yield made
        made.close()
    finally:
        door.kill()


def test_tables_columns_and_comments_are_those_of_a_real_clickhouse(client: Client) -> None:
    migrate(client)
    asked = "SELECT name, comment FROM system.tables WHERE database = 'tally'"
    tables = {str(row[0]): str(row[1]) for row in client.query(asked).result_rows}
    columns = client.query(
        "SELECT table, name, type, comment FROM system.columns WHERE database = 'tally' "
        "ORDER BY table, position"
    ).result_rows
    # Where migrations themselves are noted is in no file.
    del tables["migrations"]
    read = {one.name: one for one in relations()}
    assert {name: one.comment for name, one in read.items()} == tables
    for name, one in read.items():
        if one.columns:
            found = [tuple(row[1:]) for row in columns if row[0] == name]
            assert [(each.name, each.type, each.comment) for each in one.columns] == found, name
