"""Where the race is run: one broker for all but frames, filled once, and the truth about it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from benchmarks._brokers import CompiledKafka
from benchmarks._events import by_partition, make_events
from benchmarks._frames import as_frames
from benchmarks._servers import TOPIC, clickhouse, create_topic, fill
from benchmarks.race.contestants import EVERYTHING, ROOT, Log
from benchmarks.race.truth import Truth, truth_of
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka_node import Guarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks._events import Event
    from tests.kit.kafka import RealKafka

PARTITIONS = 4
EVENTS_PER_FRAME = 5_000
EVENTS_AGE_MS = 600_000
"""How long ago the first event happened: long enough that none lies ahead of the log's time."""

LOOKED_AHEAD = 100_000
"""A worker looks for the first rules so many records ahead; in a shorter log it finds those that
the first worker writes at its end."""

ANSWER_TIMEOUT_S = 20
APPLY_TIMEOUT_S = 120
AS_SHIPPED = {
    "group.initial.rebalance.delay.ms": "3000",
    "log.cleaner.backoff.ms": "15000",
    "log.retention.check.interval.ms": "300000",
    "num.network.threads": "3",
    "num.io.threads": "8",
}
"""Kafka's own defaults, where those of the tests' node are made for tests."""

EVENTS_LEAST = 2_000
"""So many events a slow contestant counts at least, if there are."""


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic with events, the offsets after the last of them, and its broker's process."""

    kafka: str
    broker_pid: int
    topic: str
    events: int
    ends: tuple[int, ...]


@dataclass(slots=True)
class Arena:
    """The filled topics by log and number of events, the truth by number of events, a folder."""

    folder: Path
    events: int
    topics: dict[tuple[Log, int], FilledTopic] = field(default_factory=dict)
    truths: dict[int, Truth] = field(default_factory=dict)
    bytes_per_event: float = 0.0
    turns: int = 0

    def events_of(self, share: float) -> int:
        """How many events a contestant with this share counts."""
        return share_of(self.events, share)

    def next_folder(self) -> Path:
        """A new empty folder for one turn."""
        self.turns += 1
        folder = self.folder / f"turn-{self.turns}"
        folder.mkdir()
        return folder


def share_of(events: int, share: float) -> int:
    """A share of the events, but never too few to tell something."""
    return min(events, max(EVENTS_LEAST, round(events * share)))


@contextmanager
def arena(
    folder: Path, events: int, wanted: Iterable[tuple[Log, float]], *, real: bool
) -> Iterator[Arena]:
    """Brokers whose topics hold what these logs and shares need. They end with the block.

    Frames have a broker of their own, since workers read one topic by its name. A share is the
    first events there are, in a topic of its own, with the same partitions.
    """
    start_ms = int(time.time() * 1000) - EVENTS_AGE_MS
    made = make_events(events, start_ms)
    found = Arena(folder, events)
    with ExitStack() as stack:
        brokers: dict[bool, EmbeddedLog | RealKafka] = {}
        for log, share in dict.fromkeys(wanted):
            frames = log is Log.FRAMES
            if frames not in brokers:
                brokers[frames] = _start(stack, folder / ("frames" if frames else "json"), real)
            number = share_of(events, share)
            if number not in found.truths:
                found.truths[number] = truth_of(made[:number])
            found.topics[log, number] = _filled(brokers[frames], log, made[:number])
        found.bytes_per_event = statistics.fmean(len(one.as_json()) for one in made[:10_000])
        yield found


def _start(stack: ExitStack, folder: Path, real: bool) -> EmbeddedLog | RealKafka:
    broker = CompiledKafka(folder, Guarded(settings=AS_SHIPPED)) if real else EmbeddedLog(folder)
    stack.callback(broker.kill)
    broker.start()
    return broker


def _filled(broker: EmbeddedLog | RealKafka, log: Log, events: list[Event]) -> FilledTopic:
    """Events are keyed by their counter, as Quix and Kafka Streams want them; frames are not."""
    kafka, parts = broker.bootstrap, by_partition(events, PARTITIONS)
    topic = f"race-{len(events)}" if log is Log.PEERS else TOPIC
    create_topic(kafka, topic, PARTITIONS)
    if log is not Log.PEERS and max(map(len, parts)) >= LOOKED_AHEAD:
        _apply_rules(kafka)
    if log is Log.FRAMES:
        framed = [[(None, frame) for frame in as_frames(part, EVENTS_PER_FRAME)] for part in parts]
        fill(kafka, topic, framed, frames=True)
    else:
        fill(kafka, topic, [[(one.counter.encode(), one.as_json()) for one in p] for p in parts])
    return FilledTopic(kafka, broker.pid, topic, len(events), _ends(kafka, topic))


def _apply_rules(kafka: str) -> None:
    """As an operator does before the first event: a log is counted by the rules that lie before."""
    with TemporaryDirectory(prefix="tally-rules-") as name, clickhouse(Path(name)) as url:
        env = {**os.environ, "TALLY_KAFKA": kafka, "TALLY_CLICKHOUSE": url}
        command = [sys.executable, "-m", "pipeline.cli", "rules", "apply", str(EVERYTHING)]
        applying = subprocess.run(
            [*command, "--wait", "0"],
            env=env,
            cwd=ROOT,
            timeout=APPLY_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
    if applying.returncode:
        raise RuntimeError(f"could not apply {EVERYTHING.name}: {applying.stderr.strip()}")


def _ends(kafka: str, topic: str) -> tuple[int, ...]:
    asking = Consumer({"bootstrap.servers": kafka, "group.id": "-", "log_level": 0})
    ends = [
        asking.get_watermark_offsets(TopicPartition(topic, number), ANSWER_TIMEOUT_S)[1]
        for number in range(PARTITIONS)
    ]
    asking.close()
    return tuple(ends)


def load_average() -> float:
    """Of the last minute: with other work on the machine figures are of that, too."""
    return os.getloadavg()[0]
