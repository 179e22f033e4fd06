"""The bound on queries of the ClickHouse door, reached."""

from concurrent.futures import ThreadPoolExecutor

from pipeline.embedded.clickhouse.server import QUERIES_MAX, QUERIES_WAITING_MAX
from tests.integration.clickhouse.process import ClickHouse, Reply

MORE = 12


def test_of_too_many_queries_the_last_are_refused_and_the_others_answered(
    door: ClickHouse,
) -> None:
    many = QUERIES_MAX + QUERIES_WAITING_MAX + MORE

    def ask(_: int) -> Reply:
        return door.ask("SELECT sleepEachRow(1.5)")

    with ThreadPoolExecutor(many) as threads:
        replies = list(threads.map(ask, range(many)))
    codes = [reply.headers.get("X-ClickHouse-Exception-Code") for reply in replies]
    assert set(codes) <= {None, "202"}
    assert 0 < codes.count("202") <= 3 * MORE
    assert door.rows("SELECT 1") == "1\n"
