"""Idempotent producers at full speed, and the judge of what the log has of theirs afterwards."""

import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Iterable
from typing import Self

from confluent_kafka import KafkaError, Message

from tests.integration.log.clients import IDEMPOTENT, TIMEOUT_S, Clients, offset_of

IN_FLIGHT_MAX = 5000
PADDING = b" " + b"x" * 100


class Stream:
    """Sends numbered records to one partition from a thread of its own until told to end.

    With `keys`, the records take that many keys in turn, for topics that are compacted.
    """

    def __init__(
        self,
        clients: Clients,
        topic: str,
        *,
        name: str = "s",
        partition: int = 0,
        keys: int = 0,
        codec: str = "lz4",
        idempotent: bool = True,
    ) -> None:
        self.name, self.partition, self.keys = name, partition, keys
        self.sent = 0
        self.numbers, self.offsets = array("q"), array("q")
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._producer = clients.producer(
            (IDEMPOTENT if idempotent else {})
            | {"linger.ms": 2, "batch.num.messages": 200, "compression.type": codec}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(TIMEOUT_S)

    def key(self, number: int) -> bytes | None:
        return b"%d" % (number % self.keys) if self.keys else None

    def _run(self) -> None:
        while not self._ending.is_set():
            if len(self._producer) > IN_FLIGHT_MAX:
                self._producer.poll(0.05)
                continue
            value = b"%b %d" % (self.name.encode(), self.sent) + PADDING
            self._producer.produce(
                self._topic, value, self.key(self.sent), self.partition, on_delivery=self._report
            )
            self.sent += 1
            self._producer.poll(0)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        self.numbers.append(number_of(message))
        self.offsets.append(offset_of(message))

    def wait_for_more(self, count: int) -> None:
        """Block until `count` more records are acknowledged; fail after 90 s."""
        goal, deadline_s = len(self.numbers) + count, time.monotonic() + 90
        while len(self.numbers) < goal:
            assert time.monotonic() < deadline_s, f"{len(self.numbers)} of {goal}"
            assert self.errors == []
            time.sleep(0.02)

    def finish(self) -> None:
        """End, and wait until every record that was sent is acknowledged; fail after 90 s."""
        self._ending.set()
        self._thread.join(TIMEOUT_S)
        assert self._producer.flush(90) == 0
        assert self.errors == []
        assert len(self.numbers) == self.sent


def name_of(message: Message) -> str:
    return (message.value() or b"").split()[0].decode()


def number_of(message: Message) -> int:
    return int((message.value() or b"").split()[1])


def problems(stream: Stream, read: Iterable[Message]) -> list[str]:
    """What is wrong with a stream's records in its partition; empty when nothing is.

    Every acknowledged record must be there once, in order, at the offset that was acknowledged. Of
    a compacted topic a record may be missing if a later one of its key was acknowledged.
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    for message in read:
        if name_of(message) == stream.name:
            found[number_of(message)].append(offset_of(message))
    wrong = [f"{n} is there {len(places)} times" for n, places in found.items() if len(places) > 1]
    if list(found) != sorted(found):
        wrong.append("the order is not that of sending")
    last_of_key = {stream.key(n): n for n in stream.numbers} if stream.keys else {}
    for number, offset in zip(stream.numbers, stream.offsets, strict=True):
        if number in found:
            if found[number] != [offset]:
                wrong.append(f"{number} is at {found[number]}, acknowledged at {offset}")
        elif not stream.keys or last_of_key[stream.key(number)] == number:
            wrong.append(f"{number} is missing, acknowledged at {offset}")
    return wrong
