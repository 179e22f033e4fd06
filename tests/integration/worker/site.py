"""One broker and one ClickHouse, on which each scenario counts into a build of its own."""

import itertools
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from tests.integration.worker.events import PARTITIONS, Window
from tests.integration.worker.offsets import committed, dead_letter_places, log_ends
from tests.integration.worker.stream import TOPIC, Sender
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally, tally_on

READY_TIMEOUT_S = 180
SETTLE_TIMEOUT_S = 120
DELETION_S = 3.0
"""How long a broker may be busy with deleting after the topic's name is free again."""

POLL_S = 0.1
"""Scenarios wait side by side in one process: asking more often would cost the workers time."""

READY = re.compile(r"^worker ready: (\d+) partitions$", re.MULTILINE)
QUICK = {
    "TALLY_FLUSH_INTERVAL_S": "0.4",
    "TALLY_CHECKPOINT_INTERVAL_S": "1.5",
    # Leaders' passes over ClickHouse have tests of their own, and would take most of its time.
    "TALLY_ROLLUP_INTERVAL_S": "3600",
    "TALLY_TRENDS_INTERVAL_S": "3600",
}

# Views read the declared build alone, which is 1; this is what they do, for any build.
CELLS = (
    "SELECT counter, toString(region), toUnixTimestamp(window), toInt64(sum(p) - sum(n)) FROM ("
    "SELECT counter, region, window, max(p) AS p, max(n) AS n FROM tally.cells_1m "
    "WHERE build = {build} AND startsWith(counter, '{family}:') "
    "GROUP BY counter, region, window, slot, replica, shard) GROUP BY counter, region, window"
)
VIEW = (
    "SELECT counter, region, toUnixTimestamp(window), toInt64(count) "
    "FROM tally.counts_by_region_1m WHERE startsWith(counter, '{family}:')"
)
CHECKPOINTED = (
    "SELECT uniqExact(shard) FROM tally.positions WHERE build = {build} "
    "AND toUnixTimestamp64Milli(checkpointed_at) > {since_ms}"
)
TOTALS = "SELECT counter, toInt64(net) FROM tally.totals WHERE startsWith(counter, '{family}:')"


class Worker(Process):
    """One `tally worker` that may be killed, frozen or stopped by the test."""

    def shares(self) -> list[int]:
        """How many partitions it had after each takeover, in order."""
        return [int(found) for found in READY.findall(self.output())]

    def wait_ready(self, *, takeovers: int = 1) -> None:
        """Block until it has taken over so often since its start."""
        wait_until(
            lambda: len(self.shares()) >= takeovers or not self.running,
            f"takeover {takeovers} of a worker",
            timeout_s=READY_TIMEOUT_S,
            poll_s=POLL_S,
        )
        assert self.running, self.output()


@dataclass
class Site:
    """Where a scenario runs. Safe to use from several threads: builds keep scenarios apart."""

    broker: Broker
    tally: RunningTally
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _builds: Iterator[int] = field(default_factory=lambda: itertools.count(2))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kafka(self) -> str:
        return self.broker.bootstrap

    def new_build(self) -> int:
        """A build that no other scenario counts into; never 1, the one that views read."""
        with self._lock:
            return next(self._builds)

    def start_worker(
        self, build: int, *, fault: str | None = None, settings: Mapping[str, str] | None = None
    ) -> Worker:
        """Start a worker and return at once."""
        env = {**self.tally.env, **QUICK, "TALLY_BUILD": str(build), **(settings or {})}
        if fault is not None:
            env["TALLY_WORKER_FAULT"] = fault
        with self._lock:
            path = self.folder / f"worker-{next(self._numbers)}-build-{build}.txt"
            worker = Worker([*TALLY, "worker"], output_path=path, env=env)
            self.workers.append(worker)
        return worker

    def start_worker_without_checkpoints(self, build: int) -> Worker:
        """One that checkpoints after its takeover, which is waited for, and only flushes then."""
        env = {
            **self.tally.env,
            **QUICK,
            "TALLY_BUILD": str(build),
            "TALLY_CHECKPOINT_INTERVAL_S": "600",
            "TALLY_HEARTBEAT_INTERVAL_S": "0.5",
        }
        started_ms = int(time.time() * 1000)
        path = self.folder / f"worker-without-checkpoints-build-{build}.txt"
        worker = Worker([*TALLY, "worker"], output_path=path, env=env)
        self.workers.append(worker)
        worker.wait_ready()
        # Heartbeats bring it into the position rows.
        self.tally.wait_for(
            CHECKPOINTED.format(build=build, since_ms=started_ms), [(PARTITIONS,)], timeout_s=60
        )
        return worker

    def wait_flushed(self, build: int) -> None:
        """Block until everything that is in the log now is flushed by a build's workers."""
        ends = log_ends(self.kafka)

        def is_flushed() -> bool:
            at = self.positions(build)
            return all(shard in at and at[shard][0] >= end for shard, end in enumerate(ends))

        wait_until(is_flushed, f"build {build} flushes up to {ends}", timeout_s=60, poll_s=0.2)

    def wait_shared(self, workers: list[Worker]) -> None:
        """Block until all these workers together own every partition, and none of them none."""

        def is_shared() -> bool:
            assert all(worker.running for worker in workers), [w.output() for w in workers]
            last = [(worker.shares() or [0])[-1] for worker in workers]
            return all(last) and sum(last) == PARTITIONS

        wait_until(
            is_shared, f"{len(workers)} workers share", timeout_s=READY_TIMEOUT_S, poll_s=POLL_S
        )

    def stop(self, workers: list[Worker]) -> None:
        """End workers in order, all at the same time; each must end with exit code 0."""
        for worker in workers:
            worker.send(signal.SIGTERM)
        codes = [worker.wait(timeout_s=40) for worker in workers]
        failed = [worker.output() for worker, code in zip(workers, codes, strict=True) if code]
        assert not failed, "\n\n".join(failed)

    def counts(self, build: int, family: str) -> dict[Window, int]:
        """Every window of every counter of a family in every region, as ClickHouse has it."""
        query = (VIEW if build == 1 else CELLS).format(build=build, family=family)
        rows = self.tally.rows(query)
        found = {(counter, region, window): count for counter, region, window, count in rows}
        assert len(found) == len(rows)
        return found

    def positions(self, build: int) -> dict[int, tuple[int, int]]:
        """The next offsets after what is flushed and after what is checkpointed, by shard."""
        rows = self.tally.rows(
            "SELECT shard, max(flushed_through) + 1, max(checkpoint_through) + 1 "
            f"FROM tally.positions WHERE build = {build} GROUP BY shard"
        )
        return {shard: (flushed, checkpointed) for shard, flushed, checkpointed in rows}

    def settle(self, build: int) -> None:
        """Block until everything that is in the log now is checkpointed by a build's workers."""
        ends = log_ends(self.kafka)

        def is_settled() -> bool:
            at = committed(self.kafka, build)
            return all(done >= end for done, end in zip(at, ends, strict=True))

        wait_until(
            is_settled,
            f"build {build} checkpoints up to {ends}",
            timeout_s=SETTLE_TIMEOUT_S,
            poll_s=0.2,
        )

    def expect(self, build: int, family: str, sender: Sender) -> None:
        """Compare all counts and dead letters of a family with the truth; nothing may differ."""
        expected, found = dict(sender.truth.windows), self.counts(build, family)
        differences = {
            key: (expected.get(key), found.get(key))
            for key in {**expected, **found}
            if expected.get(key) != found.get(key)
        }
        assert not differences, (
            f"{len(differences)} of {len(expected)} windows of {family} in build {build} differ "
            f"(expected, found): {dict(itertools.islice(differences.items(), 10))}"
        )
        if build == 1:
            totals = dict(self.tally.rows(TOTALS.format(family=family)))
            assert totals == sender.truth.totals()
        missing = sender.bad_places - dead_letter_places(self.kafka)
        assert not missing, f"no dead letter for {sorted(missing)[:10]}"

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            worker.kill()


def make_topic(kafka: str) -> None:
    """An empty log with the settings that counting asks for."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = NewTopic(TOPIC, PARTITIONS, 1, config=config)
    admin.create_topics([topic])[TOPIC].result(timeout=20)


def make_topic_anew(kafka: str) -> None:
    """Delete the topic, wait until it is gone, and make it as it was."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)
    wait_until(lambda: TOPIC not in admin.list_topics(timeout=20).topics, "the topic is gone")
    make_topic(kafka)
    wait_until(lambda: len(_partition_ids(admin)) == PARTITIONS, "the topic is back")
    time.sleep(DELETION_S)


def _partition_ids(admin: AdminClient) -> list[int]:
    """The partitions the topic has by now: metadata follow its creation with a delay."""
    topic = admin.list_topics(timeout=20).topics.get(TOPIC)
    return [] if topic is None else list(topic.partitions)


def trim(kafka: str, starts: list[int]) -> None:
    """Delete what lies before these offsets, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    places = [TopicPartition(TOPIC, number, at) for number, at in enumerate(starts)]
    for future in admin.delete_records(places).values():
        future.result(timeout=20)


@contextmanager
def fresh_site(kind: str, folder: Path) -> Iterator[Site]:
    """A broker, `kafka` or `embedded`, and a ClickHouse, both empty; all ends with the block."""
    broker: Broker
    broker = RealKafka(folder / "log") if kind == "kafka" else EmbeddedLog(folder / "log")
    with site_on(broker, folder) as site:
        yield site


@contextmanager
def site_on(broker: Broker, folder: Path) -> Iterator[Site]:
    """The same on a broker that was not started yet."""
    broker.start()
    try:
        make_topic(broker.bootstrap)
        with tally_on(broker, folder, workers=0) as tally:
            site = Site(broker, tally, folder)
            try:
                yield site
            finally:
                site.close()
    finally:
        broker.kill()
