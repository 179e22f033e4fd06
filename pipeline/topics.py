"""The topics Tally needs, with the settings its exactness rests on."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from pipeline import dead_letters
from pipeline.errors import OperatorError, TryAgainError
from pipeline.kafka_clients import librdkafka
from pipeline.kafka_refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from schemas.addresses import KafkaAddress

INCREMENTS = "tally.increments"
SHARD_PLAN = "tally.shard-plan"
"""Compacted, one partition: what producers must know to choose a partition."""

TRENDS = "tally.trends"
"""One partition: which counters begin and cease to trend, each event with an id as its key."""

LOAD = "tally.load"
"""One partition, kept for an hour: what producers report of their load, for the shard plan."""

STRICT = "tally.strict"
"""Commands to strict counters. Its partitions are fixed when it is made."""

STRICT_CHANGELOG = "tally.strict-changelog"
"""Compacted, as many partitions: what each strict counter is."""

STRICT_GROUP = "tally-strict"
"""The consumer group of those who decide; builds have no part in it."""

_CHANGELOG = re.compile(r"tally-build-([0-9]+)-cells-changelog")
_TIMEOUT_S = 10.0
_REFUSED_S = 1.0
"""When it is first asked whether there was no answer because Kafka refuses the client."""

_SETTLE_POLL_S = 0.2
_SETTLE_POLLS = 50


class NotGrownError(TryAgainError):
    """Kafka refused to grow a topic, which is as it was."""


def group_id(build: int) -> str:
    """The consumer group of a build: each build has its own, and so its own offsets."""
    return f"tally-build-{build}"


def changelog(build: int) -> str:
    """The changelog topic of a build's cell table, by Faust's naming."""
    return f"{group_id(build)}-cells-changelog"


def is_changelog(name: str) -> bool:
    """Whether a topic is that of a build."""
    return _CHANGELOG.fullmatch(name) is not None


def builds_with_changelog(names: Mapping[str, int]) -> list[int]:
    """The builds whose changelogs are among these topics."""
    return sorted(int(found[1]) for name in names if (found := _CHANGELOG.fullmatch(name)))


class Admin(AdminClient):
    """An AdminClient that knows why brokers refuse it."""

    def __init__(self, kafka: KafkaAddress) -> None:
        """Connects when it is first used; never blocks."""
        self._refusals = Refusals(kafka)
        super().__init__(librdkafka(kafka, {"error_cb": self._refusals.hear}))

    def no_answer(self) -> OperatorError | TryAgainError:
        """Why brokers did not answer just now. Never blocks."""
        self.poll(0)
        return self._refusals.as_ours()


def admin_client(kafka: KafkaAddress) -> Admin:
    """For making and asking about topics. Connects when it is first used."""
    return Admin(kafka)


def ensure_topics(kafka: KafkaAddress, build: int, partitions: int) -> None:
    """Create the topics that are missing. Blocks; raises TryAgainError when Kafka is away.

    The changelog always gets as many partitions as the increments have, also if these were grown by
    somebody else. Existing topics are left as they are otherwise, but an increments topic without
    LogAppendTime is refused with OperatorError, because what becomes of a record would then depend
    on its producer's clock.
    """
    admin = admin_client(kafka)
    existing = partition_counts(admin)
    source = existing.get(INCREMENTS, partitions)
    wanted = {
        INCREMENTS: (source, {"message.timestamp.type": "LogAppendTime"}),
        dead_letters.TOPIC: (
            1,
            {"retention.ms": "-1", "max.message.bytes": str(dead_letters.MAX_BYTES)},
        ),
        SHARD_PLAN: (1, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}),
        TRENDS: (1, {}),
        # A segment is dropped as a whole, and never the one that is written to.
        LOAD: (
            1,
            {
                "retention.ms": "3600000",
                "segment.ms": "600000",
                "message.timestamp.type": "LogAppendTime",
            },
        ),
        changelog(build): (source, {"cleanup.policy": "compact"}),
    }
    missing = [
        # The number of copies is the cluster's default.
        NewTopic(name, count, config=dict(config))
        for name, (count, config) in wanted.items()
        if name not in existing
    ]
    if missing:
        create(admin, missing)
    if existing.get(changelog(build), source) < source:
        grow(admin, changelog(build), source)
    _check_log_append_time(admin)


def increments_partitions(kafka: KafkaAddress) -> int:
    """How many partitions the log has now, 0 for none. Blocks; raises TryAgainError."""
    return partition_counts(admin_client(kafka)).get(INCREMENTS, 0)


def made_partitions(kafka: KafkaAddress) -> int:
    """How many partitions the log has. Blocks; raises OperatorError when nobody has made it."""
    partitions = increments_partitions(kafka)
    if not partitions:
        raise OperatorError(
            f"topic {INCREMENTS} does not exist yet; start a worker first (`tally up` runs one)"
        )
    return partitions


def partition_counts(admin: Admin) -> Mapping[str, int]:
    """How many partitions each topic has. Blocks; raises TryAgainError when Kafka is away.

    Raises OperatorError, after a second as a rule, when Kafka refuses the user or TLS fails: the
    client itself would go on trying.
    """
    try:
        topics = admin.list_topics(timeout=_REFUSED_S).topics
    except KafkaException:
        if isinstance(refused := admin.no_answer(), OperatorError):
            raise refused from None
        try:
            topics = admin.list_topics(timeout=_TIMEOUT_S - _REFUSED_S).topics
        except KafkaException as error:
            raise admin.no_answer() from error
    return {name: len(topic.partitions) for name, topic in topics.items()}


def grow(admin: Admin, topic: str, partitions: int) -> None:
    """Give a topic more partitions, and wait until Kafka tells of them.

    Blocks; raises NotGrownError when Kafka refuses, and TryAgainError when it does not do it in
    time: then it may still.
    """
    futures: Mapping[str, Future[None]] = admin.create_partitions(
        [NewPartitions(topic, partitions)], operation_timeout=_TIMEOUT_S
    )
    failure: KafkaException | None = None
    try:
        futures[topic].result(timeout=_TIMEOUT_S)
    except TimeoutError:
        pass  # It may be done all the same.
    except KafkaException as error:
        # Two that grow it at once both try; to the second, Kafka says that it has so many.
        failure = error
    for _ in range(_SETTLE_POLLS):
        if partition_counts(admin).get(topic, 0) >= partitions:
            return
        if failure is not None:
            break
        time.sleep(_SETTLE_POLL_S)
    refused = failure is not None and _is_refusal(failure.args[0].code())
    raise (NotGrownError if refused else TryAgainError)(
        f"Kafka did not grow topic {topic} to {partitions} partitions: {failure or 'in time'}"
    )


def _is_refusal(code: int) -> bool:
    """Whether a broker said it; codes below 0 are the client's own, who cannot know."""
    return code > 0 and code != KafkaError.REQUEST_TIMED_OUT


def settings_of(admin: AdminClient, topic: str) -> Mapping[str, str]:
    """A topic's settings by Kafka's names.

    Blocks, also while one that was made a moment ago is not known everywhere; raises TryAgainError
    when Kafka is away.
    """
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for poll in range(_SETTLE_POLLS):
        try:
            config = admin.describe_configs([resource])[resource].result(timeout=_TIMEOUT_S)
        except TimeoutError:
            raise TryAgainError(f"Kafka did not describe topic {topic} in time") from None
        except KafkaException as error:
            is_new = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if is_new and poll + 1 < _SETTLE_POLLS:
                time.sleep(_SETTLE_POLL_S)
                continue
            raise TryAgainError(f"Kafka did not describe topic {topic}: {error}") from error
        return {name: entry.value for name, entry in config.items() if entry.value is not None}
    raise AssertionError("the last look returns or raises")


def create(admin: AdminClient, topics: list[NewTopic]) -> None:
    """Make topics; one that is there by now is no error. Blocks; raises TryAgainError."""
    futures: Mapping[str, Future[None]] = admin.create_topics(topics, operation_timeout=_TIMEOUT_S)
    for name, future in futures.items():
        try:
            future.result(timeout=_TIMEOUT_S)
        except TimeoutError:
            raise TryAgainError(f"Kafka did not create topic {name} in time") from None
        except KafkaException as error:
            # Two workers that start together both try; the second finds it done.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TryAgainError(f"Kafka did not create topic {name}: {error}") from error


def _check_log_append_time(admin: AdminClient) -> None:
    kind = settings_of(admin, INCREMENTS).get("message.timestamp.type")
    if kind != "LogAppendTime":
        raise OperatorError(
            f"topic {INCREMENTS} has message.timestamp.type={kind}; set it to LogAppendTime and "
            "count into a new build, since exact counting goes by the log's own time"
        )
