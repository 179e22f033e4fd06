"""Sessions: what stays, what does not, and who may be in one."""

import time

import pytest

from tests.integration.clickhouse.process import ClickHouse
from tests.integration.clickhouse.test_streaming import ENDED, end_of, held

BLOCK_SIZE = "SELECT getSetting('max_block_size')"


def test_temporary_tables_and_set_stay_in_their_session(door: ClickHouse) -> None:
    door.rows("CREATE TEMPORARY TABLE mine (a UInt8)", session_id="one")
    door.rows("INSERT INTO mine VALUES (5)", session_id="one")
    door.rows("SET max_block_size = 111", session_id="one")
    assert door.rows("SELECT a FROM mine", session_id="one") == "5\n"
    assert door.rows(BLOCK_SIZE, session_id="one") == "111\n"
    assert door.ask("SELECT a FROM mine", session_id="two").status == 404
    assert door.ask("SELECT a FROM mine").status == 404
    assert door.rows(BLOCK_SIZE, session_id="two") != "111\n"


def test_a_setting_of_one_query_gives_way_to_the_sessions_own(door: ClickHouse) -> None:
    default = door.rows(BLOCK_SIZE)
    assert door.rows(BLOCK_SIZE, session_id="three", max_block_size=7) == "7\n"
    assert door.rows(BLOCK_SIZE, session_id="three") == default
    door.rows("SET max_block_size = 222", session_id="three")
    assert door.rows(BLOCK_SIZE, session_id="three", max_block_size=7) == "7\n"
    assert door.rows(BLOCK_SIZE, session_id="three") == "222\n"


def test_a_refused_setting_leaves_the_session_as_it_was(door: ClickHouse) -> None:
    door.rows("SET max_block_size = 333", session_id="four")
    refused = door.ask("SELECT 1", session_id="four", max_block_size=7, nonsense=1)
    assert refused.headers["X-ClickHouse-Exception-Code"] == "115"
    assert door.rows(BLOCK_SIZE, session_id="four") == "333\n"


def test_the_database_of_one_query_gives_way_to_the_sessions_own(
    door: ClickHouse, database: str
) -> None:
    sql = "SELECT currentDatabase()"
    assert door.rows(sql, session_id="five", database=database) == f"{database}\n"
    assert door.rows(sql, session_id="five") == "default\n"
    door.rows(f"USE {database}", session_id="five")
    assert door.rows(sql, session_id="five", database="system") == "system\n"
    assert door.rows(sql, session_id="five") == f"{database}\n"


def test_get_only_reads_in_a_session_and_post_writes_again_after_it(
    door: ClickHouse, database: str
) -> None:
    create = f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory"
    refused = door.ask(method="GET", query=create, session_id="six")
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"
    assert door.ask(method="GET", query="SELECT 1", session_id="six").text == "1\n"
    door.rows(create, session_id="six")


def test_a_session_that_chose_readonly_stays_so(door: ClickHouse, database: str) -> None:
    door.rows("SET readonly = 1", session_id="seven")
    assert door.rows("SELECT 1", session_id="seven") == "1\n"
    refused = door.ask(f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory", session_id="seven")
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"


def test_a_session_in_use_is_locked(door: ClickHouse) -> None:
    with held(door, "in-session", session_id="busy") as [first]:
        refused = door.ask("SELECT 1", session_id="busy")
        assert refused.headers["X-ClickHouse-Exception-Code"] == "373"
        assert not first.done()
    assert end_of(first) == ENDED
    assert door.rows("SELECT 1", session_id="busy") == "1\n"


def test_a_session_that_must_exist_is_not_made(door: ClickHouse) -> None:
    refused = door.ask("SELECT 1", session_id="never", session_check=1)
    assert refused.headers["X-ClickHouse-Exception-Code"] == "372"


def test_a_session_ends_after_its_time_and_when_closed(door: ClickHouse) -> None:
    make = "CREATE TEMPORARY TABLE brief (a UInt8)"
    door.rows(make, session_id="eight", session_timeout=1)
    door.rows(make, session_id="nine")
    door.rows("SELECT 1", session_id="nine", close_session=1)
    assert door.ask("SELECT 1", session_id="nine", session_check=1).status == 500
    time.sleep(1.2)
    assert door.ask("SELECT 1", session_id="eight", session_check=1).status == 500


@pytest.mark.parametrize("timeout", ["soon", "3601"])
def test_a_timeout_that_makes_no_sense_is_refused(door: ClickHouse, timeout: str) -> None:
    refused = door.ask("SELECT 1", session_id="ten", session_timeout=timeout)
    assert refused.headers["X-ClickHouse-Exception-Code"] == "374"
