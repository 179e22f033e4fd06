"""How long a killed worker with many live cells is away.

Run: python -m benchmarks.restart [--cells N] [--json FILE]

One worker counts N counters, once each, within one slot, and checkpoints them; it is killed, one
more event is sent, and a new worker is started at once. "Ready" is when it has taken its partitions
over, which includes about ten seconds until the group misses the killed one; "counted" is when
ClickHouse has the new event on top of the recovered cell.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect
from confluent_kafka import Producer

from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._servers import clickhouse
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process, wait_until

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

TOPIC = "tally.increments"
PARTITIONS = 8
ROWS_PER_FRAME = 5_000
SLOT_S = 60
FILL_S_MAX = 45
"""Filling begins only if so much of the current slot is left, so that all cells share it."""

TIMEOUT_S = 300
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the start of the new process."""

    cells: int
    ready_s: float
    counted_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """The servers, a folder for output, and a build that nobody else counts into."""

    kafka: str
    clickhouse: str
    folder: Path
    build: int = 1

    def start_worker(self, name: str) -> Process:
        """A worker with default settings; returns at once."""
        env = {
            "TALLY_KAFKA": self.kafka,
            "TALLY_CLICKHOUSE": self.clickhouse,
            "TALLY_BUILD": str(self.build),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "pipeline.cli", "worker"]
        return Process(command, output_path=self.folder / f"{name}.txt", env=env, cwd=self.folder)


def measure(place: Place, cells: int, family: str = "restart") -> Restart:
    """Fill, kill, restart. Raises WrongAnswerError when a count is not exact afterwards."""
    client = clickhouse_connect.get_client(dsn=place.clickhouse)
    try:
        with place.start_worker("before") as before:
            before.wait_for_line(r"^worker ready", timeout_s=TIMEOUT_S)
            ends = fill(place.kafka, cells, family)
            wait_checkpointed(client, place.build, ends)
            before.kill()
        send(place.kafka, [(0, encode_frame({"counter": [f"{family}:0"]}))])
        started_s = time.monotonic()
        with place.start_worker("after") as after:
            after.wait_for_line(r"^worker ready", timeout_s=TIMEOUT_S)
            ready_s = time.monotonic() - started_s
            # Without the recovered cell the counter would stay at 1: the greater value wins.
            wait_until(
                lambda: counts(client, place.build, f"{family}:0")[1] == 2,
                "the new event is counted",
                timeout_s=TIMEOUT_S,
                poll_s=0.05,
            )
            counted_s = time.monotonic() - started_s
            after.stop(timeout_s=TIMEOUT_S)
        if (found := counts(client, place.build, f"{family}:")) != (cells, cells + 1):
            raise WrongAnswerError(f"counters and sum are {found}, not {(cells, cells + 1)}")
    finally:
        client.close()
    return Restart(cells, ready_s, counted_s)


def fill(kafka: str, cells: int, family: str) -> dict[int, int]:
    """Send one event for each counter, within one slot; the offset after the last by partition."""
    left_s = SLOT_S - time.time() % SLOT_S
    if left_s < FILL_S_MAX:
        time.sleep(left_s + 1)
    frames = []
    for number, first in enumerate(range(0, cells, ROWS_PER_FRAME)):
        names = [f"{family}:{n}" for n in range(first, min(cells, first + ROWS_PER_FRAME))]
        at_ms = int(time.time() // SLOT_S * SLOT_S * 1000)
        columns = {"counter": names, "at": [at_ms] * len(names)}
        frames.append((number % PARTITIONS, encode_frame(columns)))
    return send(kafka, frames)


def send(kafka: str, frames: list[tuple[int, bytes]]) -> dict[int, int]:
    """Send frames to partitions and wait until all are confirmed; raises RuntimeError if not."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    ends: dict[int, int] = {}

    def delivered(error: object, record: object) -> None:
        if error is None:
            partition, offset = record.partition(), record.offset()  # type: ignore[attr-defined]  # a confluent_kafka.Message
            ends[partition] = max(ends.get(partition, 0), offset + 1)

    for partition, value in frames:
        headers: dict[str, str | bytes | None] = {"content-type": FRAME_CONTENT_TYPE}
        producer.produce(TOPIC, value, partition=partition, headers=headers, on_delivery=delivered)
    if producer.flush(TIMEOUT_S) or len(ends) != len({partition for partition, _ in frames}):
        raise RuntimeError("the log did not confirm all frames")
    return ends


def wait_checkpointed(client: Client, build: int, ends: dict[int, int]) -> None:
    """Block until a restart would read nothing of what was sent."""
    query = (
        "SELECT shard, max(checkpoint_through) + 1 FROM tally.positions "
        f"WHERE build = {build} GROUP BY shard"
    )

    def is_done() -> bool:
        found = {row[0]: row[1] for row in client.query(query).result_rows}
        return all(found.get(shard, 0) >= end for shard, end in ends.items())

    wait_until(is_done, "all cells are checkpointed", timeout_s=TIMEOUT_S, poll_s=0.2)


def counts(client: Client, build: int, prefix: str) -> tuple[int, int]:
    """How many counters begin so, and what they add up to; a whole counter ends no other name."""
    condition = (
        f"startsWith(counter, '{prefix}')" if prefix.endswith(":") else f"counter = '{prefix}'"
    )
    [(counters, total)] = client.query(
        "SELECT uniqExact(counter), toInt64(sum(p) - sum(n)) FROM ("
        "SELECT counter, max(p) AS p, max(n) AS n FROM tally.cells_1m "
        f"WHERE build = {build} AND {condition} "
        "GROUP BY counter, region, window, slot, replica, shard)"
    ).result_rows
    return counters, total


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--cells", type=int, default=1_000_000, help="default 1000000")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = options.parse_args()
    with TemporaryDirectory(prefix="tally-bench-") as name:
        folder = Path(name)
        log = EmbeddedLog(folder / "log")
        log.start()
        try:
            with clickhouse(folder) as url:
                done = measure(Place(log.bootstrap, url, folder), arguments.cells)
        finally:
            log.kill()
    print(f"restart with {done.cells:,} live cells: ready after {done.ready_s:.1f} s, ", end="")
    print(f"a new event counted after {done.counted_s:.1f} s")
    write_json(arguments.json, "restart", asdict(done))


if __name__ == "__main__":
    main()
