"""Tally's tables, empty, in a ClickHouse that tests share one after the other."""

from typing import Any

from clickhouse_connect.driver import Client

from schemas.migrate import migrate

# What migrating itself writes is part of how tables are made; the rest of them begin empty.
_MADE = (
    "SELECT name, create_table_query, if(name IN ('migrations', 'builds'), total_rows, 0) "
    "FROM system.tables WHERE database = 'tally' ORDER BY name"
)
_FILLED = (
    "SELECT DISTINCT table FROM system.parts "
    "WHERE database = 'tally' AND active AND table NOT IN ('migrations', 'builds')"
)

_made: dict[str, Any] = {}
"""By server, how its tables are made when nobody has changed them."""


def empty_tables(client: Client) -> None:
    """Leave the tables as migrating makes them, whatever the test before left. Blocks.

    Migrating takes a second, so they are made anew only where they were changed, not just filled.
    """
    if _made.get(client.uri) != client.query(_MADE).result_rows:
        client.command("DROP DATABASE IF EXISTS tally SYNC")
        migrate(client)
        _made[client.uri] = client.query(_MADE).result_rows
    for (name,) in client.query(_FILLED).result_rows:
        client.command(f"TRUNCATE TABLE tally.{name} SYNC")
