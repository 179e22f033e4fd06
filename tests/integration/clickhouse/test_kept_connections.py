"""Connections of queries without a session are used again: nothing of one query is in the next."""

import pytest

from tests.integration.clickhouse.process import ClickHouse

STATE = "SELECT getSetting('max_block_size'), currentDatabase()"
TIMES = 3
"""Asked so often, since any of the connections that are kept could be the spoilt one."""


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 SETTINGS max_block_size = 77",
        "SELECT 1 FORMAT TSV SETTINGS max_block_size = 77",
        "SET max_block_size = 77",
        "USE system",
        "INSERT INTO FUNCTION null('a UInt8') SETTINGS max_block_size = 77 FORMAT CSV\n1\n",
        "SELECT no_such_column SETTINGS max_block_size = 77",
        "EXPLAIN SYNTAX SELECT 1 SETTINGS max_block_size = 77",
    ],
)
def test_what_a_query_sets_is_not_set_for_the_next(door: ClickHouse, statement: str) -> None:
    before = door.rows(STATE, max_threads=2)
    door.ask(statement, max_threads=2)
    assert {door.rows(STATE, max_threads=2) for _ in range(TIMES)} == {before}


def test_settings_of_one_request_are_not_those_of_another(door: ClickHouse) -> None:
    sql = "SELECT getSetting('max_block_size'), getSetting('max_threads')"
    for size, threads in ((77, 1), (78, 1), (77, 2), (77, 1), (78, 1)):
        found = door.rows(sql, max_block_size=size, max_threads=threads)
        assert found == f"{size}\t{threads}\n"


def test_a_temporary_table_ends_with_the_query_that_made_it(door: ClickHouse) -> None:
    door.rows("CREATE TEMPORARY TABLE passing (a UInt8)")
    for _ in range(TIMES):
        assert door.rows("EXISTS TEMPORARY TABLE passing") == "0\n"


@pytest.mark.parametrize("readonly", ["1", "2"])
def test_who_may_only_read_leaves_no_connection_on_which_nobody_can_write(
    door: ClickHouse, database: str, readonly: str
) -> None:
    door.rows(f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory")
    door.rows("SELECT 1", readonly=readonly)
    door.ask("SELECT 1", method="GET", query="SELECT 1")
    for _ in range(TIMES):
        door.rows(f"INSERT INTO {database}.t VALUES (1)")
    assert door.rows(f"SELECT count() FROM {database}.t") == f"{TIMES}\n"


def test_each_query_is_known_by_its_own_id(door: ClickHouse, database: str) -> None:
    door.rows(f"CREATE TABLE {database}.t (a String) ENGINE = Memory")
    own = "SELECT Settings['log_comment'] FROM system.processes WHERE query LIKE '%own id%'"
    for number in range(TIMES):
        assert door.rows(own, query_id=f"read-{number}") == f"read-{number}\n"
        door.rows(f"INSERT INTO {database}.t VALUES ('x')", query_id=f"write-{number}")
        assert door.rows(f"{own} SETTINGS log_comment = 'mine'", query_id="x") == "mine\n"
        long = "long-" + "x" * 2_000
        assert door.rows(own, query_id=long) == f"{long}\n"
