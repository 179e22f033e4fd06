"""Large results, slow readers, readers that leave, and many at once."""

import http.client
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.integration.clickhouse.process import ClickHouse, Reply

WAIT_S = 30.0
ENDED = "394"
SLOW = "SELECT /* {} */ sum(sleepEachRow(0.1)) FROM numbers(3000) SETTINGS max_block_size = 1"
ENDLESS = "SELECT number, toString(number) FROM numbers(100000000000)"


def running(door: ClickHouse, mark: str) -> int:
    sql = "SELECT count() FROM system.processes WHERE query NOT LIKE '%processes%'"
    return int(door.rows(f"{sql} AND query LIKE '%{mark}%'"))


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


@contextmanager
def held(door: ClickHouse, *ids: str, **params: str) -> Iterator[list["Future[Reply]"]]:
    """Queries of these ids that run until they are ended by somebody; on the way out, by this."""

    def ask(one: str) -> Reply:
        return door.ask(SLOW.format(one), "POST", "/", None, query_id=one, **params)

    with ThreadPoolExecutor(len(ids)) as pool:
        slow = [pool.submit(ask, one) for one in ids]
        try:
            assert eventually(lambda: sum(running(door, one) for one in ids) == len(ids))
            yield slow
        finally:
            named = ", ".join(f"'{one}'" for one in ids)
            door.rows(f"KILL QUERY WHERE query_id IN ({named}) SYNC")


def end_of(query: "Future[Reply]") -> str | None:
    """The error with which a query ended; None if it has its whole answer."""
    return query.result(WAIT_S).headers.get("X-ClickHouse-Exception-Code")


def test_a_large_result_streams_in_bounded_memory(door: ClickHouse) -> None:
    door.rows("SELECT number, toString(number) FROM numbers(1000000) FORMAT Null")
    before = door.memory_bytes()
    connection = http.client.HTTPConnection(door.host, door.port, timeout=30)
    size_bytes, peak_bytes = 0, before
    try:
        sql = "SELECT number, repeat('x', 100) FROM numbers(5000000) FORMAT JSONCompact"
        connection.request("POST", "/", sql)
        answer = connection.getresponse()
        while piece := answer.read(1 << 22):
            size_bytes += len(piece)
            peak_bytes = max(peak_bytes, door.memory_bytes())
    finally:
        connection.close()
    assert size_bytes > 500_000_000
    assert peak_bytes - before < 200_000_000


def test_a_query_whose_reader_leaves_is_stopped(door: ClickHouse) -> None:
    connection = http.client.HTTPConnection(door.host, door.port, timeout=30)
    connection.request("POST", "/", f"/* leaving */ {ENDLESS}")
    connection.getresponse().read(1000)
    assert running(door, "leaving") == 1
    connection.close()
    assert eventually(lambda: running(door, "leaving") == 0)


def test_a_query_is_stopped_too_when_nothing_was_sent_yet(door: ClickHouse) -> None:
    connection = http.client.HTTPConnection(door.host, door.port, timeout=30)
    slow = (
        "SELECT /* silent */ sum(sleepEachRow(0.1)) FROM numbers(3000) SETTINGS max_block_size = 1"
    )
    connection.request("POST", "/", slow)
    assert eventually(lambda: running(door, "silent") == 1)
    connection.close()
    assert eventually(lambda: running(door, "silent") == 0)


def test_kill_query_takes_the_clients_query_id(door: ClickHouse) -> None:
    with ThreadPoolExecutor(1) as pool:
        slow = SLOW.format("victim")
        asked = pool.submit(door.ask, slow, query_id="victim-1")
        assert eventually(lambda: running(door, "victim") == 1)
        door.rows("KILL QUERY WHERE query_id = 'nobody' SYNC")
        assert running(door, "victim") == 1
        door.rows("KILL QUERY WHERE query_id = 'victim-1' SYNC")
        reply = asked.result(WAIT_S)
    assert reply.headers["X-ClickHouse-Exception-Code"] == "394"


def test_two_queries_may_not_share_an_id_at_once(door: ClickHouse) -> None:
    with held(door, "twin") as [first]:
        assert door.ask("SELECT 1", query_id="twin").headers["X-ClickHouse-Exception-Code"] == "216"
        assert (running(door, "twin"), first.done()) == (1, False), "the first goes on"
    assert end_of(first) == ENDED
    assert door.ask("SELECT 1", query_id="twin").status == 200


def test_a_slow_query_does_not_block_others(door: ClickHouse) -> None:
    with held(door, *(f"slow-{number}" for number in range(4))) as slow:
        assert door.rows("SELECT 1") == "1\n"
        assert not any(query.done() for query in slow)
    assert [end_of(query) for query in slow] == [ENDED] * 4


@pytest.mark.parametrize("clients", [16])
def test_many_clients_write_and_read_at_once(door: ClickHouse, database: str, clients: int) -> None:
    door.rows("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", database=database)

    def work(number: int) -> None:
        for step in range(5):
            sql = f"INSERT INTO t VALUES ({number * 100 + step})"
            door.rows(sql, database=database)
            assert int(door.rows("SELECT count() FROM t", database=database)) > 0

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    count = door.rows("SELECT count(), uniqExact(a) FROM t", database=database)
    assert count == f"{clients * 5}\t{clients * 5}\n"
