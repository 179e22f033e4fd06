"""A steady stream of events into the log, from a thread of its own, with its truth beside it."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

from confluent_kafka import KafkaError, Producer

from tests.integration.worker.events import FRAME_HEADERS, Message, Messages, Truth

TOPIC = "tally.increments"
BURST_PAUSE_S = 0.8
BURST = 16
POLL_S = 0.02
FLUSH_TIMEOUT_S = 60


@dataclass(slots=True)
class Sender:
    """Sends messages and remembers what must come of them. `flush` proves that all arrived."""

    kafka: str
    truth: Truth = field(default_factory=Truth)
    bad_places: set[str] = field(default_factory=set)
    sent: int = 0
    errors: list[str] = field(default_factory=list)
    _producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """Begin with a new producer, which knows nothing of an earlier topic of the same name."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.kafka,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "log_level": 0,
        }
        self._producer = Producer(settings)

    def send(self, message: Message) -> None:
        """Hand one message to the producer; it counts in the truth from now on."""

        def delivered(error: KafkaError | None, record: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
                return
            place = f"{record.partition()}/{record.offset()}"
            self.bad_places.update(f"{place}/{row}" for row in message.bad_rows)

        self._producer.produce(
            TOPIC,
            message.value,
            partition=message.partition,
            headers=dict(FRAME_HEADERS) if message.is_frame else None,
            on_delivery=delivered,
        )
        self._producer.poll(0)
        self.sent += 1
        for event in message.events:
            self.truth.add(event)

    def flush(self) -> None:
        """Block until all that was sent is confirmed; fail the test when something is not."""
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        assert (left, self.errors) == (0, [])


class Stream(Sender):
    """As a context manager it sends without pause until `finish` or the end of the block."""

    def __init__(self, kafka: str, family: str, seed: int) -> None:
        super().__init__(kafka)
        self.family = family
        self._messages = Messages(family, seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{family}", daemon=True)

    def finish(self) -> None:
        """Stop sending and wait until everything is in the log."""
        self._stop.set()
        self._thread.join(FLUSH_TIMEOUT_S)
        assert not self._thread.is_alive()
        self.flush()

    def wait_for_more(self, messages: int, timeout_s: float = 60) -> None:
        """Block until so many more messages were sent."""
        goal, deadline_s = self.sent + messages, time.monotonic() + timeout_s
        while self.sent < goal:
            assert time.monotonic() < deadline_s, "the stream stands still"
            time.sleep(POLL_S)

    def _run(self) -> None:
        while not self._stop.wait(BURST_PAUSE_S):
            # A fetch costs more than its records do, so a burst goes to few partitions.
            self._messages.turn_to_other_partitions()
            for _ in range(BURST):
                self.send(self._messages.next(int(time.time() * 1000)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(FLUSH_TIMEOUT_S)
