"""The embedded log beside a real Apache Kafka and librdkafka's mock cluster, in one run.

Run: python -m benchmarks.log. Each turn sends messages with confluent-kafka (acks=all, linger 20
ms) and reads them back; a time counts only when every message came back exactly once. The client is
Python: what it does with the mock cluster, which keeps messages in memory and does little else, is
about the most it can do. The brokers' processor time says what they cost beside it.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks._brokers import EMBEDDED, PARTITIONS, Running, brokers
from benchmarks._kit import Contestant, Outcome, parser, print_rates, rates_document, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS = 5
WARM_UPS = 2
EVENTS = 600_000
SMALL_BYTES, LARGE_BYTES = 100, 1000
# There are fewer large messages, so that a turn with them takes about as long.
LARGE_SHARE = 4
# The mock cluster keeps 5 MB of a partition, so a turn is spread over topics that stay below it.
TOPIC_BYTES_MAX = PARTITIONS * 4_200_000
RECORD_OVERHEAD_BYTES = 12
TIMEOUT_S = 60
NUMBER_BYTES = 8
CONSUME_AT_ONCE = 10_000
GOALS_PER_S = {"produce": 300_000, "consume": 500_000}


@dataclass(slots=True)
class Cpu:
    """Processor time over all counted rounds, of the broker and of the client."""

    broker_s: float = 0.0
    client_s: float = 0.0
    messages: int = 0

    @contextmanager
    def measured(self, broker: Running, messages: int) -> Iterator[None]:
        """Adds what the block takes. Garbage is collected before it, and not in it."""
        gc.collect()
        gc.disable()
        broker_s, client_s = broker.cpu_s(), time.process_time()
        try:
            yield
        finally:
            self.broker_s += broker.cpu_s() - broker_s
            self.client_s += time.process_time() - client_s
            self.messages += messages
            gc.enable()

    def per_million(self) -> dict[str, float]:
        return {
            "broker_cpu_s_per_million": self.broker_s / self.messages * 1e6,
            "client_cpu_s_per_million": self.client_s / self.messages * 1e6,
        }


@dataclass(slots=True)
class Bench:
    """One broker with messages of one size: sends them all, then reads them all."""

    broker: Running
    values: Sequence[bytes]
    topics: Sequence[str]
    starts: list[TopicPartition] = field(default_factory=list)
    cpu: dict[str, Cpu] = field(default_factory=lambda: {"produce": Cpu(), "consume": Cpu()})

    def produce(self) -> Outcome:
        """The clock runs from the first message until the last one is acknowledged."""
        self.starts = self._ends()
        producer = Producer(self._config() | PRODUCER)
        producer.list_topics(self.topics[0], timeout=TIMEOUT_S)  # connected before the clock runs
        per_topic = -(-len(self.values) // len(self.topics))
        send = producer.produce
        with self.cpu["produce"].measured(self.broker, len(self.values)):
            started_s = time.perf_counter()
            for number, topic in enumerate(self.topics):
                part = self.values[number * per_topic : (number + 1) * per_topic]
                for value, partition in zip(part, cycle(range(PARTITIONS)), strict=False):
                    send(topic, value, partition=partition)
            left = producer.flush(TIMEOUT_S)
            spent_s = time.perf_counter() - started_s
        return Outcome(len(self.values), spent_s, {"unacknowledged": left}, {"unacknowledged": 0})

    def consume(self) -> Outcome:
        """The clock runs from the first message in hand to the last."""
        consumer = Consumer(self._config() | CONSUMER)
        consumer.assign(self.starts)
        found: list[Message] = []
        try:
            with self.cpu["consume"].measured(self.broker, len(self.values)):
                found += consumer.consume(1, TIMEOUT_S)
                started_s = time.perf_counter()
                while len(found) < len(self.values):
                    batch = consumer.consume(
                        min(CONSUME_AT_ONCE, len(self.values) - len(found)), TIMEOUT_S
                    )
                    if not batch:
                        break
                    found += batch
                spent_s = time.perf_counter() - started_s
        finally:
            consumer.close()
        expected = {"stored": len(self.values), "read exactly once": len(self.values)}
        stored = sum(end.offset for end in self._ends()) - sum(at.offset for at in self.starts)
        answer = {"stored": stored, "read exactly once": exactly_once(found, len(self.values))}
        return Outcome(len(self.values) - 1, spent_s, answer, expected)

    def _config(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.bootstrap, "log_level": 0}

    def _ends(self) -> list[TopicPartition]:
        asking = Consumer(self._config() | {"group.id": "ends"})
        places = [TopicPartition(t, p) for t in self.topics for p in range(PARTITIONS)]
        try:
            for place in places:
                place.offset = asking.get_watermark_offsets(place, timeout=TIMEOUT_S)[1]
        finally:
            asking.close()
        return places


PRODUCER = {
    "acks": "all",
    "linger.ms": 20,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}
# With the client's own defaults (a queue of 100 000 messages, a back-off of a second when it is
# full) reading was several times slower with every broker at about the same processor time: the
# client waited. So the goal for reading holds for a client with a large queue only.
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "queued.min.messages": 2_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "fetch.queue.backoff.ms": 5,
}


def numbered(count: int, size_bytes: int) -> list[bytes]:
    """Messages that begin with their number, and so can be told apart."""
    filler = bytes(range(256)) * (size_bytes // 256 + 1)
    rest = filler[: size_bytes - NUMBER_BYTES]
    return [number.to_bytes(NUMBER_BYTES, "little") + rest for number in range(count)]


def exactly_once(messages: Sequence[Message], count: int) -> int:
    """How many of the numbers below `count` are there exactly once."""
    values = [message.value() or b"" for message in messages if message.error() is None]
    numbers = np.frombuffer(b"".join(value[:NUMBER_BYTES] for value in values), np.uint64)
    times = np.bincount(numbers.astype(np.int64), minlength=count)
    return int((times[:count] == 1).sum())


def touch_memory(size_bytes: int) -> None:
    """Use as much memory as a turn will need, and give it back; less if there is not enough.

    A virtual machine gets memory from its host when it is touched first, which is slow, and may
    give it back when it was free for some seconds. So this comes before each turn: else a log that
    grows pays for it, and one that reuses its memory, as the mock cluster does, pays nothing.
    """
    available_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    np.ones(min(size_bytes, available_bytes // 2), np.uint8)


def contest(found: Sequence[Running], size_bytes: int, count: int, rounds: int) -> dict[str, Any]:
    """All brokers take turns with messages of one size; prints the tables, returns the figures."""
    topic_count = -(-count * (size_bytes + RECORD_OVERHEAD_BYTES) // TOPIC_BYTES_MAX)
    topics = [f"bench-{size_bytes}-{number}" for number in range(topic_count)]
    values = numbered(count, size_bytes)
    benches = []
    for broker in found:
        broker.make_topics(topics)
        benches.append(Bench(broker, values, topics))
    phases = {
        "produce": [Contestant(bench.broker.name, bench.produce) for bench in benches],
        "consume": [Contestant(bench.broker.name, bench.consume) for bench in benches],
    }
    for number in range(-WARM_UPS, rounds):
        for place in range(len(benches)):
            turn = (place + number) % len(benches)
            # The log's files, the client's queue, and what is read back.
            touch_memory(3 * count * size_bytes)
            # What was sent is checked by reading it; a wrong answer ends the whole benchmark.
            for phase in phases.values():
                phase[turn].take_turn(counted=number >= 0)
            if number < 0:
                benches[turn].cpu = {"produce": Cpu(), "consume": Cpu()}
    return {
        name: _shown(f"{name} {size_bytes} B, {count:,} a round", name, contestants, benches)
        for name, contestants in phases.items()
    }


def _shown(
    title: str, phase: str, contestants: Sequence[Contestant], benches: Sequence[Bench]
) -> dict[str, Any]:
    print_rates(title, "message", contestants, contestants[1:])
    figures = rates_document(contestants)
    for bench in benches:
        cpu = bench.cpu[phase].per_million()
        figures[bench.broker.name] |= cpu
        broker_s, client_s = cpu.values()
        print(
            f"  {bench.broker.name:<34}processor seconds per million: broker {broker_s:5.2f}, "
            f"client {client_s:5.2f}"
        )
    print()
    return figures


def main() -> None:
    options = parser(__doc__, EVENTS, ROUNDS).parse_args()
    load_before = os.getloadavg()[0]
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="tally-bench-") as folder,
        brokers(Path(folder)) as all_,
    ):
        for size_bytes in (SMALL_BYTES, LARGE_BYTES):
            count = options.events if size_bytes == SMALL_BYTES else options.events // LARGE_SHARE
            figures[f"{size_bytes} B"] = contest(all_, size_bytes, count, options.rounds)
    for phase, goal in GOALS_PER_S.items():
        rate = figures[f"{SMALL_BYTES} B"][phase][EMBEDDED]["per_s"]
        verdict = "reached" if rate >= goal else "MISSED"
        print(f"goal, {phase} at {SMALL_BYTES} B: {rate:,.0f} of {goal:,} a second: {verdict}")
    print(f"load average before: {load_before:.2f}; above 1, another program was measured too")
    write_json(options.json, "log", {"load_average_before": load_before, "sizes": figures})


if __name__ == "__main__":
    main()
