"""How a running Tally is doing, from what Kafka and ClickHouse say of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline import topics
from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.reads import FlushedShard, Reads

CHECKPOINT_AGE_MS_MAX = 30_000
"""Older than this, the shard's worker is away or stuck, whatever its process does."""

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard: `lag` is how many offsets of the log are not in ClickHouse yet.

    Ages and what was counted are None for a shard that no worker has counted yet.
    """

    shard: int
    log_end: int
    flushed_through: int | None
    lag: int
    flush_age_ms: int | None
    checkpoint_age_ms: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """Every shard, and in sentences what is wrong."""

    shards: list[ShardStatus]
    problems: list[str]

    @property
    def healthy(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {"healthy": self.healthy, **asdict(self)}


def status(kafka: str, reads: Reads, clock: Clock) -> Status:
    """Ask Kafka and ClickHouse. Blocks; raises TryAgainError when one of them is away."""
    ends = log_ends(kafka)
    flushed = {shard.shard: shard for shard in reads.positions()}
    return judge(ends, flushed, reads.refusals(), clock.now_ms())


def judge(
    ends: dict[int, int],
    flushed: dict[int, FlushedShard],
    refusals: dict[int, tuple[int, str]],
    now_ms: int,
) -> Status:
    """What the log's ends, the flushed positions and refusals mean at `now_ms`. Pure."""
    shards = [_shard_status(shard, end, flushed.get(shard), now_ms) for shard, end in ends.items()]
    problems = []
    if not ends:
        problems.append(f"topic {topics.INCREMENTS} does not exist; start a worker to make it")
    uncounted = [shard.shard for shard in shards if shard.checkpoint_age_ms is None]
    if uncounted:
        problems.append(f"no worker has checkpointed {_named(uncounted)} yet; is one running?")
    stuck = [s for s in shards if (s.checkpoint_age_ms or 0) > CHECKPOINT_AGE_MS_MAX]
    if stuck:
        age_s = max(shard.checkpoint_age_ms or 0 for shard in stuck) // 1000
        problems.append(
            f"{_named([shard.shard for shard in stuck])} not checkpointed for up to {age_s} s; "
            "is its worker running, and does ClickHouse answer?"
        )
    for shard, (refused_ms, reason) in sorted(refusals.items()):
        position = flushed.get(shard)
        if position is None or refused_ms > position.checkpointed_at_ms:
            problems.append(f"shard {shard} is not counted on: {reason}")
    return Status(shards, problems)


def log_ends(kafka: str) -> dict[int, int]:
    """The next offset of every partition of the increments. Blocks; raises TryAgainError."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    count = topics.partition_counts(admin, kafka).get(topics.INCREMENTS, 0)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "tally-status", "log_level": 0})
    try:
        return {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topics.INCREMENTS, partition), timeout=_TIMEOUT_S
            )[1]
            for partition in range(count)
        }
    except KafkaException as error:
        raise TryAgainError(f"Kafka at {kafka} did not tell its offsets: {error}") from error
    finally:
        consumer.close()


def _shard_status(shard: int, end: int, flushed: FlushedShard | None, now_ms: int) -> ShardStatus:
    if flushed is None:
        return ShardStatus(shard, end, None, end, None, None)
    checkpointed_ms = flushed.checkpointed_at_ms
    return ShardStatus(
        shard=shard,
        log_end=end,
        flushed_through=flushed.flushed_through,
        lag=max(0, end - 1 - flushed.flushed_through),
        flush_age_ms=max(0, now_ms - flushed.flushed_at_ms),
        checkpoint_age_ms=max(0, now_ms - checkpointed_ms) if checkpointed_ms else None,
    )


def _named(shards: list[int]) -> str:
    noun = "shard" if len(shards) == 1 else "shards"
    return f"{noun} {', '.join(map(str, shards))}"
