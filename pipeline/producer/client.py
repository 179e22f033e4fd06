"""The Kafka client under a producer: idempotent, waits for all replicas, tells what became of each
message, and how long that took."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from pipeline.errors import OperatorError, TryAgainError
from pipeline.kafka_clients import librdkafka
from pipeline.producer.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from pipeline.clock import Clock
    from pipeline.producer.connection import Headers, Told

    OnStored = Callable[[int], None]
    OnUnknown = Callable[[str], None]
    from schemas.addresses import KafkaAddress

log = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX = 64 << 20
"""Of messages that wait for Kafka's word. The client has a copy of each."""

SETTINGS: dict[str, Any] = {
    "linger.ms": 0,  # batches are formed before they come here
    "message.max.bytes": 1_000_000,
    "queue.buffering.max.kbytes": 128 << 10,
    "queue.buffering.max.messages": 1_000_000,
    "reconnect.backoff.max.ms": 1_000,
    "statistics.interval.ms": 1_000,
}
"""librdkafka's own, where a client is not made with others."""

_FULL_POLL_S = 0.01
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_LATENCIES_MAX = 10_000
"""How many latencies of one partition are kept from one report to the next."""


class Client:
    """Sends messages to chosen partitions. Thread-safe.

    A message whose delivery time is over is told to be unknown and never sent again. A connection
    that died, as Kafka may make it, is replaced with the next message; word of what it sent still
    comes. What is called back must not block: the thread that calls also brings word of others.
    """

    def __init__(
        self,
        kafka: KafkaAddress,
        clock: Clock,
        *,
        delivery_timeout_s: float,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        """Never blocks: it connects by itself, and again whenever it must.

        Raises OperatorError for settings that the client does not take.
        """
        self._kafka = kafka
        self._clock = clock
        self._delivery_timeout_s = delivery_timeout_s
        self._settings = librdkafka(
            kafka,
            {
                **SETTINGS,
                **(settings or {}),
                "enable.idempotence": True,
                "acks": "all",
            },
        )
        self._room = threading.Condition()
        self._bytes = 0
        self._latencies_ms: dict[int, list[float]] = {}
        self._retries = 0
        self._given_up = threading.Event()
        self._changing = threading.Lock()
        self._dead: list[Connection] = []
        self._connection = self._connect()

    def wait_for_room(self, timeout_s: float) -> bool:
        """Blocks while too many bytes wait for Kafka's word; whether there is room now."""
        with self._room:
            return self._room.wait_for(lambda: self._bytes < IN_FLIGHT_BYTES_MAX, timeout_s)

    def send(
        self,
        topic: str,
        partition: int,
        value: bytes,
        headers: Headers | None,
        *,
        on_stored: OnStored,
        on_unknown: OnUnknown,
    ) -> None:
        """Send, then call `on_stored` with the offset, or `on_unknown` with a reason.

        Blocks only while the client's own queue is full. Raises TryAgainError for a message that
        was not sent at all.
        """
        began_s = self._clock.monotonic_s()
        size = len(value)

        def told(error: KafkaError | None, message: Message) -> None:
            self._settled(size, partition, (self._clock.monotonic_s() - began_s) * 1000)
            word = word_of(error, message)
            if isinstance(word, int):
                on_stored(word)
            else:
                on_unknown(word)

        with self._room:
            self._bytes += size
        try:
            self.produce(topic, partition, value, headers, told)
        except TryAgainError:
            self._settled(size, partition, None)
            raise

    def produce(
        self, topic: str, partition: int, value: bytes, headers: Headers | None, told: Told
    ) -> None:
        """Send, then call `told` as confluent-kafka does; for those who keep their own figures.

        Blocks only while the client's own queue is full. Raises TryAgainError for a message that
        was not sent at all.
        """
        deadline_s = self._clock.monotonic_s() + self._delivery_timeout_s
        while not self._given_up.is_set():
            connection = self._connection
            try:
                if connection.is_stale and self._replaced(connection, "messages had no word"):
                    continue
                connection.produce(topic, partition, value, headers, told)
            except BufferError:
                self._given_up.wait(_FULL_POLL_S)
            except KafkaException as error:
                is_late = self._clock.monotonic_s() > deadline_s
                if is_late or not self._may_send_now(error, connection, topic):
                    raise TryAgainError(f"Kafka at {self._kafka} took no event: {error}") from error
            else:
                return
        raise TryAgainError(f"Kafka at {self._kafka} took no event before the client gave up")

    def _may_send_now(self, error: KafkaException, connection: Connection, topic: str) -> bool:
        """Whether what stood against a message may be gone: mends what it can."""
        code = error.args[0].code()
        if self._given_up.is_set():
            return False
        if code == KafkaError._FATAL:
            return self._replaced(connection, str(error))
        if code == KafkaError._UNKNOWN_PARTITION:
            # It may have been added just now.
            connection.ask_about(topic)
            self._given_up.wait(_FULL_POLL_S)
            return True
        return False

    def _connect(self) -> Connection:
        return Connection(self._settings, self._on_retries, self._clock, self._delivery_timeout_s)

    def _replaced(self, connection: Connection, why: str) -> bool:
        """Whether another connection is there now, instead of this one, which is of no more use."""
        with self._changing:
            if self._given_up.is_set():
                return False
            if connection is not self._connection:
                return True
            log.warning("the Kafka client died (%s); going on with a new one", why)
            try:
                self._connection = self._connect()
            except OperatorError as error:
                raise TryAgainError(str(error)) from error
            connection.retire()
            self._dead = [*(one for one in self._dead if not one.is_done), connection]
            return True

    def took(self, partition: int, latency_ms: float) -> None:
        """Remember how long a delivery took."""
        self._settled(0, partition, latency_ms)

    def tell(self, topic: str, value: bytes) -> None:
        """Send something that may get lost, to partition 0. Never blocks, never raises."""
        self._connection.tell(topic, value)

    def take_figures(self) -> tuple[dict[int, float], int]:
        """The p99 of delivery in ms by partition, and the retries, since this was last asked."""
        with self._room:
            latencies, self._latencies_ms = self._latencies_ms, {}
            retries, self._retries = self._retries, 0
        p99 = {number: float(np.quantile(found, 0.99)) for number, found in latencies.items()}
        return p99, retries

    def give_up(self) -> None:
        """Tell that everything not confirmed by now is unknown, and take nothing more: who sends,
        or waits to, gets TryAgainError. Never blocks.
        """
        # Said first: whoever waits for room would fill what the connections let go.
        with self._changing:
            self._given_up.set()
            connections = (*self._dead, self._connection)
        for connection in connections:
            connection.give_up()

    def close(self) -> None:
        """Give up on what is not confirmed by now: it is told to be unknown. Blocks shortly."""
        self.give_up()
        connections = (*self._dead, self._connection)
        for connection in connections:
            connection.retire()
        for connection in connections:
            connection.join()

    def _settled(self, size: int, partition: int, latency_ms: float | None) -> None:
        with self._room:
            self._bytes -= size
            self._room.notify_all()
            if latency_ms is not None:
                known = self._latencies_ms.setdefault(partition, [])
                if len(known) < _LATENCIES_MAX:
                    known.append(latency_ms)

    def _on_retries(self, more: int) -> None:
        with self._room:
            self._retries += more


def word_of(error: KafkaError | None, message: Message) -> int | str:
    """Kafka's word on a message: the offset it is stored at, or why that is not known."""
    if error is not None and error.code() in _GIVEN_UP:
        return "given up before Kafka confirmed it"
    offset = message.offset()
    if error is None and offset is not None and offset >= 0:
        return offset
    return error.str() if error else "Kafka told no offset"
