"""Commits that pass only in the generation they were decided in.

aiokafka's own commit goes under whatever generation is current, so one that was decided on before a
rebalance could pass for one after it. The parts of aiokafka used here are private to it, which is
why its version is bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.structs import OffsetAndMetadata

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka import AIOKafkaConsumer

Place = TypeVar("Place", bound=tuple[str, int])
"""A topic and a partition."""

_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def generation_of(consumer: AIOKafkaConsumer) -> int:
    """The generation of the group that a consumer is in now; below zero in none."""
    found: int = consumer._coordinator.generation
    return found


async def commit_in(
    consumer: AIOKafkaConsumer, offsets: Mapping[Place, int], generation: int
) -> bool:
    """Commit next offsets by topic and partition; False if the group has left `generation` behind.

    Nobody is in a generation below zero, though Kafka would take such a commit while the group has
    no members. Raises TryAgainError when the coordinator does not answer.
    """
    if generation < 0:
        return False
    coordinator = consumer._coordinator
    values = {TopicPartition(*tp): OffsetAndMetadata(at, "") for tp, at in offsets.items()}
    for pause_s in _PAUSES_S:
        await coordinator.ensure_coordinator_known()
        try:
            async with coordinator._commit_lock:
                # The request takes the generation that is current when it is made, which is before
                # the next await. So the comparison fences it.
                if coordinator.generation != generation:
                    return False
                await coordinator._do_commit_offsets(None, values)
        except (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError):
            return False
        except KafkaError as error:
            if not error.retriable:
                raise TryAgainError(f"the offsets were not committed: {error!r}") from error
            await asyncio.sleep(pause_s)
        else:
            return True
    raise TryAgainError("the offsets were not committed: the group's coordinator is away")
