"""Who counts a build: the members of its consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from pipeline import topics
from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from schemas.addresses import KafkaAddress

MEMBER_S = 15.0
"""How long Kafka takes a dead worker for a member."""

_TIMEOUT_S = 20.0


def hosts_of_members(kafka: KafkaAddress, build: int) -> list[str]:
    """The host of every worker that counts a build. Blocks; raises TryAgainError.

    A worker that was killed is among them for up to MEMBER_S more.
    """
    group = topics.group_id(build)
    admin = topics.admin_client(kafka)  # Kept: without it the answer never comes.
    try:
        futures = admin.describe_consumer_groups([group])
        members = futures[group].result(timeout=_TIMEOUT_S).members
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise TryAgainError(f"Kafka did not tell who counts: {error}") from error
    except TimeoutError:
        raise TryAgainError(f"Kafka at {kafka} did not tell who counts in time") from None
    return sorted(member.host.lstrip("/") for member in members)
