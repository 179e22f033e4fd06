"""kill -9 during inserts: what was acknowledged is there afterwards, again and again."""

import http.client
import random
import threading
import time
from pathlib import Path

import pytest

from tests.integration.clickhouse.process import ClickHouse

WRITERS = 4
ROWS_PER_INSERT = 50


class Writer(threading.Thread):
    """Inserts numbered batches until the server dies; keeps those that were acknowledged."""

    def __init__(self, door: ClickHouse, first: int) -> None:
        super().__init__()
        self._door = door
        self._next = first
        self.acknowledged: list[int] = []

    def run(self) -> None:
        while True:
            batch = self._next
            rows = "".join(f"{batch},{row}\n" for row in range(ROWS_PER_INSERT))
            try:
                reply = self._door.ask(rows, query="INSERT INTO t FORMAT CSV")
            except (OSError, http.client.HTTPException):
                return
            assert reply.status == 200, reply.text
            self.acknowledged.append(batch)
            self._next += 1


@pytest.mark.parametrize("rounds", [3, pytest.param(10, marks=pytest.mark.prove)])
def test_every_acknowledged_row_survives_kill_9(tmp_path: Path, rounds: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    acknowledged: set[int] = set()
    for number in range(rounds):
        with ClickHouse(tmp_path / "data") as door:
            door.rows(
                "CREATE TABLE IF NOT EXISTS t (batch UInt64, row UInt16) "
                "ENGINE = MergeTree ORDER BY (batch, row)"
            )
            check(door, acknowledged)
            start = number * 1_000_000_000
            writers = [Writer(door, start + n * 1_000_000) for n in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.3, 1.5))
            door.kill()
            for writer in writers:
                writer.join()
                acknowledged.update(writer.acknowledged)
    assert len(acknowledged) > rounds
    # However much was killed, it starts within the time that any start has.
    with ClickHouse(tmp_path / "data") as door:
        check(door, acknowledged)
        # The check itself must see a loss: a batch taken away by hand is missed.
        lost = min(acknowledged)
        door.rows(f"DELETE FROM t WHERE batch = {lost}")
        with pytest.raises(AssertionError, match="missing"):
            check(door, acknowledged)


def check(door: ClickHouse, acknowledged: set[int]) -> None:
    """Every acknowledged batch is whole, and no batch is there in part."""
    lines = door.rows("SELECT batch, count(), uniqExact(row) FROM t GROUP BY batch").splitlines()
    found = {int(batch): (int(n), int(u)) for batch, n, u in (line.split("\t") for line in lines)}
    missing = acknowledged - found.keys()
    assert not missing, f"missing {len(missing)} of {len(acknowledged)}"
    torn = {batch: seen for batch, seen in found.items() if seen != (ROWS_PER_INSERT,) * 2}
    assert not torn, f"torn {torn}"


def test_functions_views_and_exchanged_tables_survive_kill_9(tmp_path: Path) -> None:
    with ClickHouse(tmp_path / "data") as door:
        door.rows("CREATE FUNCTION plus_three AS (x) -> x + 3")
        for name in ("one", "two"):
            door.rows(f"CREATE TABLE {name} (a UInt8) ENGINE = MergeTree ORDER BY a")
        door.rows("INSERT INTO one VALUES (1)")
        door.rows("CREATE VIEW above AS SELECT a FROM two WHERE a >= {least:UInt8}")
        door.rows("EXCHANGE TABLES one AND two")
        door.kill()
    with ClickHouse(tmp_path / "data") as door:
        assert door.rows("SELECT plus_three(1)") == "4\n"
        assert door.rows("SELECT a FROM above(least = 1)") == "1\n"
        assert door.rows("SELECT count() FROM one") == "0\n"
