"""Work that nobody waits for leaves half of ClickHouse's processors to those who wait."""

from contextlib import closing

from pipeline.clickhouse import connect, connect_beside
from schemas.addresses import ClickHouseAddress
from tests.integration.clickhouse.process import ClickHouse

THREADS = "SELECT getSetting('max_threads')"


def test_its_statements_take_half_of_the_threads_and_one_at_least(door: ClickHouse) -> None:
    address = ClickHouseAddress(f"http://{door.host}:{door.port}")
    with closing(connect(address)) as usual, closing(connect_beside(address)) as beside:
        [(all_of_them,)] = usual.query(THREADS).result_rows
        [(own,)] = beside.query(THREADS).result_rows
        assert own == max(1, all_of_them // 2)
        assert beside.command("SELECT sum(number) FROM numbers(10)") == 45
