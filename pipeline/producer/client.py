"""The Kafka client under a producer: idempotent, waits for all replicas, tells what became of each
message, and how long that took."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from pipeline.clock import Clock

    OnStored = Callable[[int], None]
    OnUnknown = Callable[[str], None]
    Headers = dict[str, str | bytes | None]
    Told = Callable[[KafkaError | None, Message], None]

log = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX = 64 << 20
"""Of messages that wait for Kafka's word. The client has a copy of each."""

_MESSAGE_BYTES_MAX = 1_000_000
_QUEUE_KBYTES_MAX = 128 << 10
_POLL_S = 0.1
_FULL_POLL_S = 0.01
_CLOSE_TIMEOUT_S = 5.0
_METADATA_TIMEOUT_S = 5.0
_STATISTICS_MS = 1_000
_LATENCIES_MAX = 10_000
"""How many latencies of one partition are kept from one report to the next."""


class ClientDeadError(TryAgainError):
    """The client will never send again, and did not send this: another one may."""


class Client:
    """Sends messages to chosen partitions. Thread-safe.

    A message whose delivery time is over is told to be unknown and never sent again. One thread
    calls back; what it calls must not block.
    """

    def __init__(
        self,
        kafka: str,
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
        self._room = threading.Condition()
        self._bytes = 0
        self._latencies_ms: dict[int, list[float]] = {}
        self._retries = 0
        self._told_retries = 0
        self._retired = threading.Event()
        self._producer = _made(
            {
                "bootstrap.servers": kafka,
                "linger.ms": 0,  # batches are formed before they come here
                "message.max.bytes": _MESSAGE_BYTES_MAX,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES_MAX,
                "queue.buffering.max.messages": 1_000_000,
                "reconnect.backoff.max.ms": 1_000,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
                "log_level": 0,
                **(settings or {}),
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": round(delivery_timeout_s * 1000),
            }
        )
        self._poller = threading.Thread(target=self._poll, name="tally-delivery", daemon=True)
        self._poller.start()

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
        was not sent at all, ClientDeadError if this client sends no other either.
        """
        deadline_s = self._clock.monotonic_s() + self._delivery_timeout_s
        while True:
            try:
                self._producer.produce(
                    topic, value, partition=partition, headers=headers, on_delivery=told
                )
            except BufferError:
                self._retired.wait(_FULL_POLL_S)
            except KafkaException as error:
                if self._may_know_later(error, topic, deadline_s):
                    continue
                is_dead = error.args[0].code() == KafkaError._FATAL
                kind = ClientDeadError if is_dead else TryAgainError
                raise kind(f"Kafka at {self._kafka} took no event: {error}") from error
            else:
                return

    def _may_know_later(self, error: KafkaException, topic: str, deadline_s: float) -> bool:
        """Whether a partition was not known, but may be now: it may have been added just now."""
        unknown = error.args[0].code() == KafkaError._UNKNOWN_PARTITION
        if not unknown or self._clock.monotonic_s() > deadline_s or self._retired.is_set():
            return False
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(topic, timeout=_METADATA_TIMEOUT_S)
        self._retired.wait(_FULL_POLL_S)
        return True

    def took(self, partition: int, latency_ms: float) -> None:
        """Remember how long a delivery took."""
        self._settled(0, partition, latency_ms)

    def tell(self, topic: str, value: bytes) -> None:
        """Send something that may get lost, to partition 0. Never blocks, never raises."""
        with contextlib.suppress(BufferError, KafkaException):
            self._producer.produce(topic, value, partition=0)

    def take_figures(self) -> tuple[dict[int, float], int]:
        """The p99 of delivery in ms by partition, and the retries, since this was last asked."""
        with self._room:
            latencies, self._latencies_ms = self._latencies_ms, {}
            retries = self._retries - self._told_retries
            self._told_retries = self._retries
        p99 = {number: float(np.quantile(found, 0.99)) for number, found in latencies.items()}
        return p99, max(0, retries)

    def give_up(self) -> None:
        """Tell that everything not confirmed by now is unknown. Never blocks."""
        self._producer.purge()

    def retire(self) -> None:
        """Send nothing more, but wait in the background for word of what was sent."""
        self._retired.set()

    @property
    def is_done(self) -> bool:
        """Whether it was retired and waits for nothing any more."""
        return not self._poller.is_alive()

    def close(self) -> None:
        """Give up on what is not confirmed by now: it is told to be unknown. Blocks shortly."""
        self._producer.purge()
        self._retired.set()
        self._poller.join(_CLOSE_TIMEOUT_S)

    def _settled(self, size: int, partition: int, latency_ms: float | None) -> None:
        with self._room:
            self._bytes -= size
            self._room.notify_all()
            if latency_ms is not None:
                known = self._latencies_ms.setdefault(partition, [])
                if len(known) < _LATENCIES_MAX:
                    known.append(latency_ms)

    def _on_statistics(self, text: str) -> None:
        brokers = json.loads(text).get("brokers", {})
        with self._room:
            self._retries = sum(int(one.get("txretries", 0)) for one in brokers.values())

    def _poll(self) -> None:
        while not self._retired.is_set() or len(self._producer):
            try:
                self._producer.poll(_POLL_S)
            except Exception:
                # A bug in what was called back; others wait for word of theirs.
                log.exception("telling what became of a message failed")


def word_of(error: KafkaError | None, message: Message) -> int | str:
    """Kafka's word on a message: the offset it is stored at, or why that is not known."""
    offset = message.offset()
    if error is None and offset is not None and offset >= 0:
        return offset
    return error.str() if error else "Kafka told no offset"


def _made(settings: dict[str, Any]) -> Producer:
    try:
        return Producer(settings)
    except KafkaException as error:
        raise OperatorError(f"the Kafka client cannot be made: {error}") from error
