"""One librdkafka client, for as long as it lives, and the thread that hears what it sent."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    Headers = dict[str, str | bytes | None]
    Told = Callable[[KafkaError | None, Message], None]

log = logging.getLogger(__name__)

_POLL_S = 0.1
_CLOSE_TIMEOUT_S = 5.0
_METADATA_TIMEOUT_S = 5.0


class Connection:
    """Thread-safe. One thread calls back, until it is retired and nothing waits for word."""

    def __init__(self, settings: Mapping[str, Any], on_retries: Callable[[int], None]) -> None:
        """Never blocks: it connects by itself, and again whenever it must.

        `on_retries` is told of every further retry. Raises OperatorError for settings that the
        client does not take.
        """
        self._on_retries = on_retries
        self._retries = 0
        self._retired = threading.Event()
        self._producer = _made({**settings, "stats_cb": self._on_statistics})
        self._poller = threading.Thread(target=self._poll, name="tally-delivery", daemon=True)
        self._poller.start()

    def produce(
        self, topic: str, partition: int, value: bytes, headers: Headers | None, told: Told
    ) -> None:
        """As confluent-kafka does it: never blocks, raises BufferError or KafkaException."""
        self._producer.produce(topic, value, partition=partition, headers=headers, on_delivery=told)

    def tell(self, topic: str, value: bytes) -> None:
        """Send something that may get lost, to partition 0. Never blocks, never raises."""
        with contextlib.suppress(BufferError, KafkaException):
            self._producer.produce(topic, value, partition=0)

    def ask_about(self, topic: str) -> None:
        """Learn which partitions a topic has. Blocks shortly; never raises."""
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(topic, timeout=_METADATA_TIMEOUT_S)

    def give_up(self) -> None:
        """Tell that everything not confirmed by now is unknown. Never blocks."""
        self._producer.purge()

    def retire(self) -> None:
        """Wait in the background for word of what was sent, and end with the last. Never blocks."""
        self._retired.set()

    @property
    def is_done(self) -> bool:
        """Whether it was retired and waits for nothing any more."""
        return not self._poller.is_alive()

    def join(self) -> None:
        """Block until it is done, but only shortly."""
        self._poller.join(_CLOSE_TIMEOUT_S)

    def _on_statistics(self, text: str) -> None:
        brokers = json.loads(text).get("brokers", {})
        retries = sum(int(one.get("txretries", 0)) for one in brokers.values())
        self._on_retries(max(0, retries - self._retries))
        self._retries = retries

    def _poll(self) -> None:
        while not self._retired.is_set() or len(self._producer):
            try:
                self._producer.poll(_POLL_S)
            except KafkaException:
                # It died; what was sent is told one by one, and who sends next is told why.
                continue
            except Exception:
                # A bug in what was called back; others wait for word of theirs.
                log.exception("telling what became of a message failed")


def _made(settings: dict[str, Any]) -> Producer:
    try:
        return Producer(settings)
    except KafkaException as error:
        raise OperatorError(f"the Kafka client cannot be made: {error}") from error
