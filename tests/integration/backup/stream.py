"""A stream that remembers where each of its messages lies, so that its truth can be cut short."""

from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from tests.integration.worker.events import FRAME_HEADERS, Message, Truth
from tests.integration.worker.stream import TOPIC, Stream


@dataclass(slots=True)
class Cut:
    """What must come of the messages of a log that ends earlier. As `compare` wants a stream."""

    truth: Truth = field(default_factory=Truth)
    bad_places: set[str] = field(default_factory=set)
    messages: int = 0


class PlacedStream(Stream):
    """Its messages in the order they were sent, which is the log's order in each partition."""

    def nothing_counted(self) -> Truth:
        """The truth of a log that has none of its messages."""
        return Truth()

    def __init__(self, kafka: str, family: str, seed: int) -> None:
        super().__init__(kafka, family, seed)
        self._sent_messages: list[tuple[Message, list[int]]] = []

    def send(self, message: Message) -> None:
        offset: list[int] = []

        def delivered(error: KafkaError | None, record: Any) -> None:
            if error is None:
                offset.append(record.offset())
            else:
                self.errors.append(str(error))

        self._producer.produce(
            TOPIC,
            message.value,
            partition=message.partition,
            headers=dict(FRAME_HEADERS) if message.is_frame else None,
            on_delivery=delivered,
        )
        self._producer.poll(0)
        self._sent_messages.append((message, offset))
        self.sent += 1

    def acknowledged(self) -> list[tuple[int, int]]:
        """The places of all messages of which the log has said by now that it has them."""
        return [(message.partition, offset[0]) for message, offset in self._sent_messages if offset]

    def until(self, ends: list[int]) -> Cut:
        """The truth of a log whose partitions end at these offsets. All must be delivered."""
        cut = Cut(self.nothing_counted())
        for message, (offset,) in self._sent_messages:
            if offset < ends[message.partition]:
                cut.messages += 1
                place = f"{message.partition}/{offset}"
                cut.bad_places.update(f"{place}/{row}" for row in message.bad_rows)
                for event in message.events:
                    cut.truth.add(event)
        return cut
