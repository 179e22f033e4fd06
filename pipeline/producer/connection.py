"""One librdkafka client, for as long as it lives, and the thread that hears what it sent."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from pipeline.clock import Clock

    Headers = dict[str, str | bytes | None]
    Told = Callable[[KafkaError | None, Message], None]

log = logging.getLogger(__name__)

_POLL_S = 0.1
_CLOSE_TIMEOUT_S = 5.0
_METADATA_TIMEOUT_S = 5.0

GRACE_S = 0.5
"""How long others get to hear what became of theirs, once a message has waited for too long."""

_TOGETHER_S = 0.1
"""Messages that were sent within so long wait together."""

# Whoever gives messages up must give the whole client up. Left to itself, librdkafka begins a new
# epoch of its producer, in which it sends messages again that the log has: so nothing times out
# there. For the same reason it sends one request at a time: when one is refused, those behind it
# would be out of order, which is answered by a new epoch as well.
_NEVER_A_NEW_EPOCH = {"delivery.timeout.ms": 0, "max.in.flight": 1}


# A Kafka that begins may say that it has no brokers. librdkafka then forgets all that it knew, also
# those it was given at first, and asks nobody again (confluentinc/librdkafka#5301).
_WITHOUT_BROKERS_MAX = 2
"""In so many statistics one after the other there were none: what it has is never sent."""


@dataclass(slots=True)
class _Waiting:
    """How many messages wait for word that were sent at about the same time."""

    since_s: float
    messages: int = 0


class Connection:
    """Thread-safe. One thread calls back, until it is retired and nothing waits for word.

    When a message has had no word for `patience_s`, the connection `is_stale` and must not be given
    others; after GRACE_S all that still wait are told to be given up, and none is sent again. The
    same holds at once of a client that knows no broker any more.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        on_retries: Callable[[int], None],
        clock: Clock,
        patience_s: float,
    ) -> None:
        """Never blocks: it connects by itself, and again whenever it must.

        `on_retries` is told of every further retry. Raises OperatorError for settings that the
        client does not take.
        """
        self.is_stale = False
        self._without_brokers = 0
        self._clock = clock
        self._patience_s = patience_s
        self._waiting: deque[_Waiting] = deque()
        self._counting = threading.Lock()
        self._on_retries = on_retries
        self._retries = 0
        self._retired = threading.Event()
        self._producer = _made({**settings, **_NEVER_A_NEW_EPOCH, "stats_cb": self._on_statistics})
        self._poller = threading.Thread(target=self._poll, name="tally-delivery", daemon=True)
        self._poller.start()

    def produce(
        self, topic: str, partition: int, value: bytes, headers: Headers | None, told: Told
    ) -> None:
        """As confluent-kafka does it: never blocks, raises BufferError or KafkaException."""
        with self._counting:
            waiting = self._latest()
            waiting.messages += 1

        def heard(error: KafkaError | None, message: Message) -> None:
            with self._counting:
                waiting.messages -= 1
            told(error, message)

        try:
            self._producer.produce(
                topic, value, partition=partition, headers=headers, on_delivery=heard
            )
        except BaseException:
            with self._counting:
                waiting.messages -= 1
            raise

    def tell(self, topic: str, value: bytes) -> None:
        """Send something that may get lost, to partition 0. Never blocks, never raises."""
        with contextlib.suppress(BufferError, KafkaException):
            self.produce(topic, 0, value, None, _pass_over)

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

    def _latest(self) -> _Waiting:
        """Where messages that are sent now are counted."""
        now_s = self._clock.monotonic_s()
        if not self._waiting or self._waiting[-1].since_s + _TOGETHER_S < now_s:
            self._waiting.append(_Waiting(now_s))
        return self._waiting[-1]

    def _give_up_overdue(self) -> None:
        """Tell that all are given up, some time after one had waited for too long, or if none of
        them can have word any more."""
        if self._without_brokers >= _WITHOUT_BROKERS_MAX:
            self.is_stale = True
            self.give_up()
            return
        with self._counting:
            while self._waiting and not self._waiting[0].messages:
                self._waiting.popleft()
            since_s = self._waiting[0].since_s if self._waiting else None
        if since_s is None:
            return
        overdue_s = self._clock.monotonic_s() - since_s - self._patience_s
        self.is_stale = self.is_stale or overdue_s >= 0
        if overdue_s >= GRACE_S:
            self.give_up()

    def _on_statistics(self, text: str) -> None:
        brokers = json.loads(text).get("brokers", {})
        self._without_brokers = 0 if brokers else self._without_brokers + 1
        retries = sum(int(one.get("txretries", 0)) for one in brokers.values())
        self._on_retries(max(0, retries - self._retries))
        self._retries = retries

    def _poll(self) -> None:
        while not self._retired.is_set() or len(self._producer):
            try:
                self._producer.poll(_POLL_S)
                self._give_up_overdue()
            except KafkaException:
                # It died; what was sent is told one by one, and who sends next is told why.
                continue
            except Exception:
                # A bug in what was called back; others wait for word of theirs.
                log.exception("telling what became of a message failed")


def _pass_over(_error: KafkaError | None, _message: Message) -> None:
    """Whatever became of it."""


def _made(settings: dict[str, Any]) -> Producer:
    try:
        return Producer(settings)
    except KafkaException as error:
        raise OperatorError(f"the Kafka client cannot be made: {error}") from error
