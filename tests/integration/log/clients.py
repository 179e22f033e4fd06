"""confluent-kafka clients for the contract suite, made in one line and closed with the test."""

import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from concurrent.futures import Future

TIMEOUT_S = 60
QUIET: dict[str, Any] = {"log_level": 0, "reconnect.backoff.max.ms": 300}
# librdkafka takes half a second to get a producer id, so idempotence is asked for where it matters.
ORDERED: dict[str, Any] = {"max.in.flight.requests.per.connection": 1}
IDEMPOTENT: dict[str, Any] = {
    "enable.idempotence": True,
    "max.in.flight.requests.per.connection": 5,
}
SESSION_S = 20
"""Longer than a busy machine keeps a member from its heartbeats: none is forgotten by mistake."""

SHORT_SESSION_S = 3
"""Of members that are to be forgotten."""

LOADING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
# Short waits: seeking, closing and seeing the end of a partition all wait for a fetch in flight.
FETCH: dict[str, Any] = {"fetch.wait.max.ms": 50, "fetch.error.backoff.ms": 50}


def unique(prefix: str) -> str:
    """A name no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def error_code(raised: BaseException) -> int:
    """The protocol's or librdkafka's code inside a KafkaException."""
    assert isinstance(raised, KafkaException), repr(raised)
    error = raised.args[0]
    assert isinstance(error, KafkaError), repr(error)
    return error.code()


def refusal(future: "Future[Any]") -> int:
    """The error code with which a request was refused; fails the test if it was not."""
    with pytest.raises(KafkaException) as raised:
        future.result(TIMEOUT_S)
    return error_code(raised.value)


def configs(clients: "Clients", topic: str) -> dict[str, str | None]:
    """The topic's settings as the broker describes them, defaults included."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = clients.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: entry.value for name, entry in found.items()}


class Delivery:
    """Collects delivery reports: what was acknowledged, in which order, and what failed."""

    def __init__(self) -> None:
        self.delivered: list[Message] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.errors.append(error)

    def offsets(self) -> list[int]:
        """Offsets of all that was acknowledged, in the order of the reports."""
        return [offset_of(message) for message in self.delivered]


def offset_of(message: Message) -> int:
    """The record's offset; a delivered or consumed message always has one."""
    offset = message.offset()
    assert offset is not None
    return offset


class Clients:
    """Makes clients and topics of one broker. When left, closes and removes them.

    Topics are removed because a real Kafka looks through all it has after each kill.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._stack = ExitStack()
        self._admin: AdminClient | None = None
        self._topics: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._topics:
            removed = self.admin.delete_topics(self._topics, request_timeout=5)
            for answer in removed.values():
                with suppress(KafkaException):
                    answer.result(TIMEOUT_S)

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        return self._admin

    def topic(self, *, partitions: int = 1, **configs: str | int) -> str:
        """Create a topic of a new name; `retention_ms=5` stands for `retention.ms=5`.

        Blocks until the broker shows it, which a real Kafka may do some moments after the answer.
        """
        name = unique("topic")
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=texts)])
        made[name].result(TIMEOUT_S)
        self._topics.append(name)

        def leaders() -> int:
            shown = self.admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
            return sum(partition.leader >= 0 for partition in shown.values())

        def serves() -> bool:
            last = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
            latest = {TopicPartition(name, p): last for p in range(partitions)}
            try:
                for found in self.admin.list_offsets(latest).values():
                    found.result(TIMEOUT_S)
            except KafkaException:
                return False  # The leader that is shown may not know of it yet.
            return True

        wait_until(lambda: leaders() == partitions, f"{name} is shown with all its leaders")
        wait_until(serves, f"{name} is served by its leaders")
        return name

    def producer(self, config: dict[str, Any] | None = None) -> Producer:
        """Waits for all acks and keeps the order; idempotent only if `config` says so."""
        made = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", **ORDERED, **QUIET}
            | (config or {})
        )
        self._stack.callback(made.purge)
        return made

    def consumer(self, group: str | None = None, config: dict[str, Any] | None = None) -> Consumer:
        """Reads from the earliest offset and commits only when told to, unless `config` differs."""
        made = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group or unique("group"),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": SESSION_S * 1000,
                **FETCH,
                **QUIET,
            }
            | (config or {})
        )
        self._stack.callback(made.close)
        return made

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        config: dict[str, Any] | None = None,
        key: Callable[[int], bytes | None] = lambda _: None,
    ) -> Delivery:
        """Produce and wait for every acknowledgement; an error fails the test."""
        producer = self.producer(config)
        delivery = Delivery()
        for index, value in enumerate(values):
            producer.produce(topic, value, key(index), partition, on_delivery=delivery)
            producer.poll(0)
        left = producer.flush(TIMEOUT_S)
        assert (left, delivery.errors) == (0, [])
        return delivery

    def committed(self, group: str, topic: str, partition: int = 0) -> TopicPartition:
        """What the group committed last. Waits for a coordinator that is still loading."""
        asker = self.consumer(group)
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return asker.committed([TopicPartition(topic, partition)], timeout=TIMEOUT_S)[0]
            except KafkaException as error:
                if error_code(error) not in LOADING or time.monotonic() > deadline_s:
                    raise
            time.sleep(0.05)

    def read(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        """Read `count` records of one partition from an offset, without a group."""
        reader = self.consumer()
        reader.assign([TopicPartition(topic, partition, offset)])
        return take(reader, count)

    def read_to_end(self, topic: str, *, partition: int = 0) -> list[Message]:
        """Read all a partition holds now, however many records compaction or deletion left."""
        reader = self.consumer(config={"enable.partition.eof": True})
        reader.assign([TopicPartition(topic, partition, 0)])
        found: list[Message] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            message = reader.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
        raise AssertionError(f"no end of {topic}[{partition}] after {len(found)} records")


def take(consumer: Consumer, count: int, *, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """Poll until `count` records came; errors and a time-out fail the test."""
    taken: list[Message] = []
    deadline_s = time.monotonic() + timeout_s
    while len(taken) < count:
        for message in consumer.consume(min(count - len(taken), 10_000), timeout=0.1):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            taken.append(message)
        if time.monotonic() > deadline_s:
            raise AssertionError(f"only {len(taken)} of {count} records in {timeout_s:g} s")
    return taken
