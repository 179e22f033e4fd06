"""Orders of a strict stock, what their buyer was told, and what the log says of them."""

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from confluent_kafka import Consumer, TopicPartition

from tests.integration.backup.site import STOCK

TOPIC = "tally.strict"
COUNTER = f"{STOCK}:shoes"
PAUSE_S = 0.02
PATIENCE_S = 90
FETCH_TIMEOUT_S = 20

Answer = tuple[bool, int]
"""Accepted or not, and what is left."""


@dataclass(frozen=True, slots=True)
class Order:
    """A question with an id. `increment` delivers, `decrement` sells down to nothing."""

    id: str
    op: str
    amount: int


@dataclass(slots=True)
class Shelf:
    """What commands come to, decided one after the other in the plainest way there is."""

    value: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)

    def take(self, order: Order) -> Answer:
        """The answer to an order; to an id that was answered, the same again."""
        if order.id not in self.answers:
            after = self.value + (order.amount if order.op == "increment" else -order.amount)
            accepted = after >= 0
            self.value = after if accepted else self.value
            self.answers[order.id] = (accepted, self.value)
        return self.answers[order.id]


class Buyer:
    """As a context manager it orders without end, one thing after the other, until `finish`.

    `told` has every order that was answered, in the order in which answers came.
    """

    def __init__(self, web: str, seed: int) -> None:
        self.told: dict[Order, Answer] = {}
        self._web = web
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="buyer", daemon=True)

    def finish(self) -> None:
        """Block until the last order is answered."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with httpx.Client(base_url=self._web, timeout=30) as client:
            while not self._stop.wait(PAUSE_S):
                is_delivery = self._random.random() < 0.2
                order = Order(
                    f"order-{len(self.told)}",
                    "increment" if is_delivery else "decrement",
                    self._random.randint(1, 9) if is_delivery else self._random.randint(1, 3),
                )
                self.told[order] = ask(client, order)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)


def ask(client: httpx.Client, order: Order) -> Answer:
    """Ask with the order's id until it is answered."""
    name = "delta" if order.op == "increment" else "amount"
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        answer = client.post(
            f"/api/v1/counters/{COUNTER}/{order.op}", json={"id": order.id, name: order.amount}
        )
        if answer.status_code == 200:
            found = answer.json()
            return bool(found["accepted"]), int(found["remaining"])
        assert answer.status_code in {503, 504}, answer.text
        assert time.monotonic() < deadline_s, f"{order} was not answered: {answer.text}"
        time.sleep(0.2)


def orders_in(kafka: str) -> list[Order]:
    """All commands to the counter that a log has, in log order."""
    return [
        Order(found["id"], found["op"], found.get("amount", 1))
        for found in _commands(kafka)
        if found["counter"] == COUNTER
    ]


def _commands(kafka: str) -> Iterator[dict[str, Any]]:
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka,
        "group.id": "looks-at-commands",
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        topic = consumer.list_topics(TOPIC, timeout=FETCH_TIMEOUT_S).topics[TOPIC]
        for number in sorted(topic.partitions):
            place = TopicPartition(TOPIC, number, 0)
            at, end = consumer.get_watermark_offsets(place, timeout=FETCH_TIMEOUT_S)
            consumer.assign([place])
            while at < end:
                record = consumer.poll(FETCH_TIMEOUT_S)
                assert record is not None, f"commands end at {end}, but nothing came after {at}"
                assert record.error() is None, record.error()
                value, offset = record.value(), record.offset()
                assert value is not None
                assert offset is not None
                yield json.loads(value)
                at = offset + 1
    finally:
        consumer.close()
