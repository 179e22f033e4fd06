"""The topics Tally needs, with the settings its exactness rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from pipeline import dead_letters
from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

INCREMENTS = "tally.increments"

_TIMEOUT_S = 10.0


def group_id(build: int) -> str:
    """The consumer group of a build: each build has its own, and so its own offsets."""
    return f"tally-build-{build}"


def changelog(build: int) -> str:
    """The changelog topic of a build's cell table, by Faust's naming."""
    return f"{group_id(build)}-cells-changelog"


def ensure_topics(kafka: str, build: int, partitions: int) -> None:
    """Create the topics that are missing. Blocks; raises TryAgainError when Kafka is away.

    The changelog always gets as many partitions as the increments have. Existing topics are left as
    they are, but an increments topic without LogAppendTime is refused with OperatorError, because
    what becomes of a record would then depend on its producer's clock.
    """
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    existing = partition_counts(admin, kafka)
    source = existing.get(INCREMENTS, partitions)
    wanted = {
        INCREMENTS: (source, {"message.timestamp.type": "LogAppendTime"}),
        dead_letters.TOPIC: (
            1,
            {"retention.ms": "-1", "max.message.bytes": str(dead_letters.MAX_BYTES)},
        ),
        changelog(build): (source, {"cleanup.policy": "compact"}),
    }
    missing = [
        NewTopic(name, count, 1, config=dict(config))
        for name, (count, config) in wanted.items()
        if name not in existing
    ]
    if missing:
        _create(admin, missing)
    _check_log_append_time(admin)


def partition_counts(admin: AdminClient, kafka: str) -> Mapping[str, int]:
    """How many partitions each topic has. Blocks; raises TryAgainError when Kafka is away."""
    try:
        topics = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise TryAgainError(
            f"Kafka at {kafka} does not answer; is it up? TALLY_KAFKA sets its address"
        ) from error
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _create(admin: AdminClient, topics: list[NewTopic]) -> None:
    futures: Mapping[str, Future[None]] = admin.create_topics(topics, operation_timeout=_TIMEOUT_S)
    for name, future in futures.items():
        try:
            future.result(timeout=_TIMEOUT_S)
        except KafkaException as error:
            # Two workers that start together both try; the second finds it done.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TryAgainError(f"Kafka did not create topic {name}: {error}") from error


def _check_log_append_time(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.TOPIC, INCREMENTS)
    try:
        config = admin.describe_configs([resource])[resource].result(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise TryAgainError(f"Kafka did not describe topic {INCREMENTS}: {error}") from error
    kind = config["message.timestamp.type"].value
    if kind != "LogAppendTime":
        raise OperatorError(
            f"topic {INCREMENTS} has message.timestamp.type={kind}; set it to LogAppendTime and "
            "count into a new build, since exact counting goes by the log's own time"
        )
