"""Two clusters with logs and workers of their own, which exchange while one is cut off."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.reads.reads import Reads
from pipeline.reads.senders import senders
from tests.integration.exchange.site import Cluster
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process
from tests.kit.tally import START_TIMEOUT_S, TALLY, RunningTally, start_worker

SETTINGS = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_ROLLUP_INTERVAL_S": "2",
    "TALLY_LONGEST_QUERY_S": "0",
}
PATIENCE_S = 90
STARTED = datetime.now(UTC).replace(second=0, microsecond=0)
TOTALS = "SELECT counter, toString(net) FROM tally.totals ORDER BY counter"
WINDOWS = (
    "SELECT counter, region, toUnixTimestamp(window), toString(count) "
    "FROM tally.counts_by_region_1m ORDER BY counter, region, window"
)
# An estimate of so few is at most some off; without one of the sides it would be half of it.
UNIQUES = (
    "SELECT counter, abs(toInt64(sum(uniques)) - {members}) <= 4 FROM tally.uniques_1d "
    "GROUP BY counter ORDER BY counter"
)

Two = tuple[RunningTally, RunningTally]


class Truth:
    """What was produced at either side."""

    def __init__(self) -> None:
        self.windows: Counter[tuple[str, str, int]] = Counter()
        self.members: set[tuple[str, str]] = set()

    def produce(self, tally: RunningTally, region: str, first: int) -> None:
        """Sixty increments of five counters in three minutes, each with a member of its own."""
        events = []
        for n in range(first, first + 60):
            at = STARTED - timedelta(minutes=n % 3)
            counter, delta = f"likes:{n % 5}", 1 + n % 4
            member = f"{region}-{n}"
            self.windows[counter, region, int(at.timestamp())] += delta
            self.members.add((counter, member))
            event = {"counter": counter, "delta": delta, "region": region, "member": member}
            events.append({**event, "at": at.isoformat()})
        tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in events))

    def expected(self) -> list[tuple[str, list[tuple[object, ...]]]]:
        """Every view that is compared, and what it must show."""
        totals: Counter[str] = Counter()
        for (counter, _, _), count in self.windows.items():
            totals[counter] += count
        windows = sorted((*key, str(count)) for key, count in self.windows.items())
        [members] = set(Counter(counter for counter, _ in self.members).values())
        return [
            (WINDOWS, [*windows]),
            (TOTALS, [(counter, str(total)) for counter, total in sorted(totals.items())]),
            (UNIQUES.format(members=members), [(counter, 1) for counter in sorted(totals)]),
        ]

    def wait_for(self, *tallies: RunningTally) -> None:
        for tally in tallies:
            for query, rows in self.expected():
                tally.wait_for(query, rows, timeout_s=PATIENCE_S)


@pytest.fixture
def tallies(clusters: tuple[Cluster, Cluster], tmp_path: Path) -> Iterator[Two]:
    """A log and a worker for each of the two ClickHouses."""
    with ExitStack() as stack:
        running = []
        for cluster, name in zip(clusters, ("here", "there"), strict=True):
            log = EmbeddedLog(tmp_path / name)
            stack.callback(log.kill)
            log.start()
            tally = RunningTally(
                log.bootstrap, cluster.door.url, door=cluster.door, settings=SETTINGS
            )
            output = tmp_path / f"worker-{name}.txt"
            worker = Process([*TALLY, "worker"], output_path=output, env=tally.env)
            tally.workers.append(stack.enter_context(worker))
            running.append(tally)
        for tally in running:
            tally.workers[0].wait_for_line(r"^worker ready", timeout_s=START_TIMEOUT_S)
        yield running[0], running[1]


def exchanging(source: RunningTally, target: RunningTally, output: Path) -> Process:
    command = [*TALLY, "exchange", "--to", target.clickhouse, "--interval", "1s"]
    return Process(command, output_path=output, env=source.env)


@pytest.mark.timeout(600)
def test_two_clusters_converge_through_an_outage_a_kill_and_a_swap(
    tallies: Two, tmp_path: Path
) -> None:
    here, there = tallies
    truth = Truth()
    truth.produce(here, "eu", 0)
    truth.produce(there, "us", 0)
    with ExitStack() as stack:
        to_there = stack.enter_context(exchanging(here, there, tmp_path / "to-there.txt"))
        to_here = stack.enter_context(exchanging(there, here, tmp_path / "to-here.txt"))
        truth.wait_for(here, there)

        assert there.door is not None
        there.door.kill()
        truth.produce(here, "eu", 60)
        truth.produce(there, "us", 60)
        to_there.wait_for_line(r"^tally: ClickHouse at .* does not", timeout_s=PATIENCE_S)
        to_there.kill()
        to_there = stack.enter_context(exchanging(here, there, tmp_path / "again.txt"))
        to_there.wait_for_line(r"^tally: ClickHouse at .* does not", timeout_s=PATIENCE_S)
        there.door.start()
        truth.wait_for(here, there)
        assert to_here.output().count("does not answer") == 1, "an outage is told once"

        swap(here, stack, tmp_path)
        to_there.wait_for_line(r"build 2 is read there now", timeout_s=PATIENCE_S)
        truth.produce(here, "eu", 120)
        truth.wait_for(here, there)
        for process in (to_there, to_here):
            assert process.stop() == 0
    [sender] = senders(Reads(there.client(), SystemClock()))
    assert sender.source_build == 2
    assert sender.behind_ms is not None


def swap(tally: RunningTally, stack: ExitStack, tmp_path: Path) -> None:
    """Count the log again as build 2, and declare it."""
    settings = {**SETTINGS, "TALLY_BUILD": "2"}
    second = RunningTally(tally.kafka, tally.clickhouse, door=tally.door, settings=settings)
    worker = start_worker(second, tmp_path / "second.txt")
    stack.callback(worker.kill)
    counted = "SELECT sum(p) - sum(n) FROM tally.merged_life WHERE build = "
    tally.wait_for(f"{counted} 2", tally.rows(f"{counted} 1"), timeout_s=PATIENCE_S)
    client = tally.client()
    client.command("INSERT INTO tally.builds SELECT '', 2, 2, now64(3), 'a test'")
    client.close()
