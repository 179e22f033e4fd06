"""Whether the log is the one that a build has counted."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.errors import OperatorError
from pipeline.groupless import first_since, groupless_consumer, log_ends, read_ranges
from pipeline.reconcile.log_places import AS_WORKERS_READ

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Consumer

    from pipeline.builds.positions import Reached
    from schemas.addresses import KafkaAddress

_WHAT_TO_DO = "`tally accept-log` goes on with it, then replay"


def check_same_log(kafka: KafkaAddress, build: int, counted: Mapping[int, Reached]) -> None:
    """Raise OperatorError if a build has counted what the log does not have: it is another log, and
    what was counted in the one before would be left behind.

    A log that was made anew may be as long as the one before by now. It is known by records that
    are younger than all that were counted, where those were. Blocks; raises TryAgainError.
    """
    check_ends(build, counted, log_ends(kafka))
    with closing(groupless_consumer(kafka, AS_WORKERS_READ)) as consumer:
        since_ms = {shard: one.log_ms + 1 for shard, one in counted.items() if one.through >= 0}
        younger = first_since(consumer, topics.INCREMENTS, since_ms)
        others = [
            shard
            for shard, offset in sorted(younger.items())
            if _has_younger(consumer, shard, offset, counted[shard])
        ]
    if others:
        raise OperatorError(
            f"where build {build} has counted the log, it has younger records by now (in "
            f"{some(others)}), so it was truncated or made anew: {_WHAT_TO_DO}"
        )


def check_ends(build: int, counted: Mapping[int, Reached], ends: Sequence[int]) -> None:
    """Raise OperatorError if the log ends before what a build has counted of it. Pure.

    `ends` were asked for after it was known how far the build is.
    """
    gone = [shard for shard, one in sorted(counted.items()) if shard >= len(ends)]
    if gone:
        raise OperatorError(
            f"build {build} has counted partitions that the log does not have any more (in "
            f"{some(gone)}), so it was made anew with fewer: `tally partitions {gone[-1] + 1}` "
            f"makes them again, {_WHAT_TO_DO}"
        )
    lost = [shard for shard, one in sorted(counted.items()) if one.through >= ends[shard]]
    if lost:
        raise OperatorError(
            f"the log ends before what build {build} has counted of it (in {some(lost)}), so it "
            f"was truncated or made anew: {_WHAT_TO_DO}"
        )


def some(partitions: Sequence[int]) -> str:
    """The first few of them, for people. Pure."""
    shown = ", ".join(map(str, partitions[:5]))
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"


def _has_younger(consumer: Consumer, shard: int, offset: int, counted: Reached) -> bool:
    """Whether a record that workers read is younger than what was counted, and among it. What ends
    a transaction is not, nor what was aborted, though Kafka finds both by their time."""
    ranges = {shard: (offset, counted.through + 1)}
    try:
        return any(
            message.timestamp()[1] > counted.log_ms
            for *_, message in read_ranges(consumer, topics.INCREMENTS, ranges)
        )
    finally:
        consumer.unassign()
