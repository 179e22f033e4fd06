"""The topics of strict counters: made once, with as many copies as the cluster can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    NewTopic,
)

from pipeline import topics
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.addresses import KafkaAddress

COPIES = 3
IN_SYNC_MIN = 2
RETENTION_MS = 7 * 86_400_000
"""Of commands. What they came to is in the changelog; this is how long deciders may be away."""

FETCH_WAIT_MS = 20
"""How long a broker may hold a fetch back. aiokafka has one under way at a time, without partitions
of which something was just read: these wait for it, and so does somebody for an answer."""

_SEGMENT_BYTES = 32 << 20
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Safety:
    """How a topic is kept: by how many copies, and by syncing every write or not."""

    topic: str
    brokers: int
    copies: int
    in_sync_min: int
    is_synced: bool

    @property
    def is_alone(self) -> bool:
        """Whether there is one broker, which does all that it can."""
        return self.brokers == 1 and self.is_synced

    @property
    def weakness(self) -> str | None:
        """What could take decisions back that were told, in a line; None if two copies always
        stand for them."""
        if self.copies >= IN_SYNC_MIN and self.in_sync_min >= IN_SYNC_MIN:
            return None
        kept = "every write is synced" if self.is_synced else "writes are not synced at once"
        return (
            f"{self.topic} is on {self.copies} of {self.brokers} brokers with min.insync.replicas="
            f"{self.in_sync_min}: with one disk, decisions that were told may be lost; {kept}"
        )


def copies_for(brokers: int) -> int:
    """How many copies topics get in a cluster of so many brokers."""
    return max(1, min(COPIES, brokers))


def ensure_strict_topics(kafka: KafkaAddress, partitions: int) -> int:
    """Make both topics if they are missing; how many partitions they have.

    With two brokers or more, two copies must have a write before it is confirmed. With one, it is
    synced to the disk instead. Blocks; raises TryAgainError, and OperatorError as `partitions_of`.
    """
    admin = topics.admin_client(kafka)
    existing = topics.partition_counts(admin)
    missing = [name for name in (topics.STRICT, topics.STRICT_CHANGELOG) if name not in existing]
    if missing:
        partitions = existing.get(topics.STRICT_CHANGELOG, existing.get(topics.STRICT, partitions))
        copies = copies_for(_brokers(admin))
        topics.create(
            admin,
            [
                NewTopic(
                    name,
                    partitions,
                    replication_factor=copies,
                    config={**_kept(copies), **_CONFIG[name]},
                )
                for name in missing
            ],
        )
        existing = {**existing, **dict.fromkeys(missing, partitions)}
    kind = topics.settings_of(admin, topics.STRICT).get("message.timestamp.type")
    if kind != "LogAppendTime":
        raise OperatorError(
            f"topic {topics.STRICT} has message.timestamp.type={kind}; set it to LogAppendTime: "
            "windows go by the log's own time"
        )
    return partitions_of(existing)


def partitions_of(existing: Mapping[str, int]) -> int:
    """How many partitions both topics have, 0 while one is missing.

    Raises OperatorError when they differ: then one was grown, and counters would have two owners.
    """
    commands, states = (existing.get(n, 0) for n in (topics.STRICT, topics.STRICT_CHANGELOG))
    if commands and states and commands != states:
        raise OperatorError(
            f"topic {topics.STRICT} has {commands} partitions and {topics.STRICT_CHANGELOG} has "
            f"{states}: strict topics cannot be grown; restore the one that was changed"
        )
    return min(commands, states)


def look_at_safety(admin: topics.Admin) -> list[Safety]:
    """How each of the topics is kept that is there. Blocks; raises TryAgainError."""
    try:
        cluster = admin.list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise admin.no_answer() from error
    found = []
    for name in (topics.STRICT, topics.STRICT_CHANGELOG):
        if name in cluster.topics:
            settings = topics.settings_of(admin, name)
            parts = cluster.topics[name].partitions.values()
            copies = min((len(part.replicas) for part in parts), default=0)
            in_sync_min = int(settings.get("min.insync.replicas", "1"))
            is_synced = settings.get("flush.messages") == "1"
            found.append(Safety(name, len(cluster.brokers), copies, in_sync_min, is_synced))
    return found


_CONFIG = {
    topics.STRICT: {
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": str(RETENTION_MS),
    },
    topics.STRICT_CHANGELOG: {
        "cleanup.policy": "compact",
        "segment.bytes": str(_SEGMENT_BYTES),
    },
}


def _kept(copies: int) -> dict[str, str]:
    if copies >= IN_SYNC_MIN:
        return {"min.insync.replicas": str(IN_SYNC_MIN), "unclean.leader.election.enable": "false"}
    return {"flush.messages": "1"}


def _brokers(admin: topics.Admin) -> int:
    try:
        return len(admin.list_topics(timeout=_TIMEOUT_S).brokers)
    except KafkaException as error:
        raise admin.no_answer() from error
