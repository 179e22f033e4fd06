"""The producer beside plain confluent-kafka and aiokafka, in one run, on the embedded log.

Run: python -m benchmarks.producer. Each turn sends increments and waits until all replicas have
them; a time counts only when the log then holds the right sum for every counter. Counters follow
Zipf's law. Everybody is idempotent with acks=all; the plain clients send one JSON message per
increment with the linger of 20 ms that is Tally's own default, and key by counter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as PlainProducer

from benchmarks._kit import (
    Contestant,
    Outcome,
    compete,
    parser,
    print_rates,
    rates_document,
    write_json,
)
from benchmarks._sent import SentTo, sums_of_columns
from pipeline import topics
from pipeline.producer import Producer
from schemas.addresses import KafkaAddress
from tests.kit.embedded import EmbeddedLog

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = 200_000
MANY = 10
"""`increment_many` gets so many times the events, or its turns would be over before they began."""
ROUNDS = 5
PARTITIONS = 8
COUNTERS = 50_000
MEMBERS = 100_000
ZIPF = 1.3
LINGER_MS = 20
TIMEOUT_S = 60
GOALS_PER_S = {"increment": 500_000, "increment_many": 5_000_000}

Columns = dict[str, pa.Array]


def make_columns(rows: int, *, members: bool) -> Columns:
    """Increments of one each: counters by Zipf's law, and members or none."""
    rng = np.random.default_rng(1)
    ranks = rng.zipf(ZIPF, rows) % COUNTERS
    columns = {"counter": pa.array([f"likes:post-{rank}" for rank in ranks.tolist()])}
    if members:
        numbers = rng.integers(0, MEMBERS, rows).tolist()
        columns["member"] = pa.array([f"user-{number}" for number in numbers])
    return columns


class Turn:
    """One contestant's work: send, wait for Kafka's word, and have the log read back."""

    def __init__(self, send: Callable[[], None], rows: int, expected: Any, sent: SentTo) -> None:
        self._send = send
        self._rows = rows
        self._expected = expected
        self._sent = sent
        self.client_s = 0.0
        self.sent_rows = 0

    def __call__(self) -> Outcome:
        self._sent.skip()
        gc.collect()
        began_s, client_s = time.perf_counter(), time.process_time()
        self._send()
        took_s = time.perf_counter() - began_s
        self.client_s += time.process_time() - client_s
        self.sent_rows += self._rows
        return Outcome(self._rows, took_s, self._sent.sums(), self._expected)


def by_increment(producer: Producer, columns: dict[str, list[str]]) -> None:
    increment = producer.increment
    if "member" in columns:
        for counter, member in zip(columns["counter"], columns["member"], strict=True):
            increment(counter, member=member)
    else:
        for counter in columns["counter"]:
            increment(counter)
    producer.flush()


def by_many(producer: Producer, columns: Columns) -> None:
    producer.increment_many(columns)
    producer.flush()


def by_confluent(producer: PlainProducer, counters: list[str], members: list[str]) -> None:
    produce = producer.produce
    for counter, member in zip(counters, members, strict=True):
        value = json.dumps({"counter": counter, "member": member})
        while True:
            try:
                produce(topics.INCREMENTS, value, counter)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def by_aiokafka(kafka: str, counters: list[str], members: list[str]) -> None:
    async def send_all() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=kafka, enable_idempotence=True, acks="all", linger_ms=LINGER_MS
        ) as producer:
            for counter, member in zip(counters, members, strict=True):
                value = json.dumps({"counter": counter, "member": member}).encode()
                await producer.send(topics.INCREMENTS, value, key=counter.encode())
            await producer.flush()

    asyncio.run(send_all())


def contestants(kafka: str, rows: int, stack: ExitStack) -> list[Contestant]:
    """All of them send to one log; each turn looks at what came since it began."""
    sent = stack.enter_context(closing(SentTo(kafka, topics.INCREMENTS, PARTITIONS)))
    producer = stack.enter_context(Producer(kafka))
    plain = PlainProducer(
        {
            "bootstrap.servers": kafka,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    found: list[Contestant] = []
    for members in (False, True):
        with_or_without = "members" if members else "no members"
        few = make_columns(rows, members=members)
        lists = {name: column.to_pylist() for name, column in few.items()}
        send = partial(by_increment, producer, lists)
        turn = Turn(send, rows, sums_of_columns(few), sent)
        found.append(Contestant(f"increment, {with_or_without}", turn))
        many = make_columns(MANY * rows, members=members)
        turn = Turn(partial(by_many, producer, many), MANY * rows, sums_of_columns(many), sent)
        found.append(Contestant(f"increment_many, {with_or_without}", turn))
    texts = lists["counter"], lists["member"]
    for name, send_texts in (
        ("confluent-kafka, JSON", partial(by_confluent, plain, *texts)),
        ("aiokafka, JSON", partial(by_aiokafka, kafka, *texts)),
    ):
        found.append(Contestant(name, Turn(send_texts, rows, sums_of_columns(few), sent)))
    return found


def main() -> None:
    arguments = parser(__doc__, EVENTS, ROUNDS).parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        log = EmbeddedLog(Path(folder))
        stack.callback(log.kill)
        log.start()
        topics.ensure_topics(KafkaAddress(log.bootstrap), 1, PARTITIONS)
        found = contestants(log.bootstrap, arguments.events, stack)
        compete(found, arguments.rounds)
    confluent = next(one for one in found if one.name.startswith("confluent"))
    title = f"{arguments.events:,} increments a turn, {MANY} times as many by increment_many"
    print_rates(title, "event", found, [confluent])
    for one in found:
        turn = one.run
        assert isinstance(turn, Turn)
        print(f"  {one.name:<34} client {turn.client_s / turn.sent_rows * 1e6:.2f} CPU s a million")
    for name, goal in GOALS_PER_S.items():
        rates = [one.rate for one in found if one.name.startswith(f"{name},")]
        print(f"  goal of {goal:,} by {name}: {', '.join(f'{rate / goal:.2f}' for rate in rates)}")
    write_json(arguments.json, "producer", rates_document(found))


if __name__ == "__main__":
    main()
