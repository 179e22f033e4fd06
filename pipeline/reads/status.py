"""How a running Tally is doing, from what Kafka and ClickHouse say of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from pipeline import topics
from pipeline.errors import OperatorError, TryAgainError
from pipeline.kafka_clients import librdkafka
from pipeline.planning.reading import shards_now
from pipeline.reads import live
from pipeline.reads.health import Status, judge
from pipeline.reads.moments import rfc3339
from pipeline.reads.observed import (
    FRESHNESS_OVER_MS,
    Freshness,
    Letters,
    Observed,
    PlanStatus,
    Reconciliation,
    Spill,
)
from pipeline.reads.scored_minutes import MINUTE_MS, scored_minutes
from pipeline.reads.senders import senders
from pipeline.reason_kinds import kind_of
from pipeline.slots import spill_counter
from schemas.families import load_families

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads
    from pipeline.reason_kinds import ReasonKind
    from schemas.addresses import KafkaAddress
    from schemas.settings import Settings

LETTERS_OVER_MS = 3_600_000
LISTED_MAX = 100
REASONS_MAX = 1000
"""So many reasons of dead letters are told apart: those of ClickHouse are its own words."""

ALL_SHARDS = -1
_TIMEOUT_S = 10.0


def status(settings: Settings, reads: Reads) -> Status:
    """Ask Kafka and ClickHouse. Blocks; raises TryAgainError when one of them is away.

    Raises OperatorError for a families' file that cannot be read: lateness is in it.
    """
    # The log's ends come first: a shard that is flushed beyond them has no lag.
    ends = log_ends(settings.kafka)
    observed = observe_clickhouse(reads, settings, ends)
    return judge(replace(observed, plan=_plan(settings, reads.now_ms()) if ends else PlanStatus()))


def observe_clickhouse(reads: Reads, settings: Settings, ends: dict[int, int]) -> Observed:
    """What there is to judge beside the log's ends; as `status`."""
    families = load_families(settings.config)
    flushed = {shard.shard: shard for shard in reads.positions()}
    freshness = _freshness(reads)
    rules, declared_ms = _control(reads)
    scored = scored_minutes(reads)
    return Observed(
        now_ms=reads.now_ms(),
        ends=ends,
        flushed=flushed,
        refusals=reads.refusals(),
        freshness=freshness.pop(ALL_SHARDS, None),
        shard_freshness=freshness,
        letters=_letters(reads),
        rolled_log_ms=reads.rolled_log_ms(),
        rollup_ages_ms=_rollup_ages(reads),
        spills=_spills(reads),
        senders=senders(reads),
        reconciled=_reconciled(reads),
        rules_applied_ms=rules,
        trends_until_ms=0 if scored is None else scored.last_ms + MINUTE_MS,
        build_declared_ms=declared_ms,
        rollup_interval_ms=round(settings.rollup_interval_s * 1000),
        trends_interval_ms=round(settings.trends_interval_s * 1000),
        heartbeat_interval_ms=round(settings.heartbeat_interval_s * 1000),
        lateness_ms_min=min(
            family.lateness_ms for family in (families.default, *families.families.values())
        ),
    )


def log_ends(kafka: KafkaAddress) -> dict[int, int]:
    """The next offset of every partition of the increments. Blocks; raises TryAgainError."""
    count = topics.increments_partitions(kafka)
    consumer = Consumer(librdkafka(kafka, {"group.id": "tally-status"}))
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


def _plan(settings: Settings, now_ms: int) -> PlanStatus:
    try:
        return shards_now(settings, now_ms).status(settings.shard_rate_max)
    except OperatorError as error:
        return PlanStatus(unreadable=str(error))


def _freshness(reads: Reads) -> dict[int, Freshness]:
    """By shard, and that of all together."""
    figures = (
        "count(), quantileExact(0.5)(freshness_ms), quantileExact(0.99)(freshness_ms) "
        f"FROM tally.freshness WHERE {live.OWN} AND at >= fromUnixTimestamp64Milli({{since:Int64}})"
    )
    rows = reads.rows(
        f"SELECT toInt64(shard) AS name, {figures} GROUP BY name UNION ALL "
        f"SELECT {ALL_SHARDS}, {figures} HAVING count() > 0",
        {"since": reads.now_ms() - FRESHNESS_OVER_MS},
    )
    return {int(shard): Freshness(*map(int, found)) for shard, *found in rows}


def _letters(reads: Reads) -> Letters:
    # A letter may be there more than once, since parts merge later.
    letters = (
        "SELECT any(dead_letters.reason) AS reason, log_time FROM tally.dead_letters "  # noqa: S608 - a constant
        f"WHERE {live.OWN} GROUP BY shard, `offset`, `row`, log_time"
    )
    recent = "log_time >= fromUnixTimestamp64Milli({since:Int64})"
    rows = reads.rows(
        f"SELECT reason, count() AS letters, countIf({recent}) AS lately, "  # noqa: S608 - constants
        "sum(letters) OVER () AS total, sum(lately) OVER () AS total_lately "
        f"FROM ({letters}) GROUP BY reason ORDER BY lately DESC, letters DESC, reason "
        f"LIMIT {REASONS_MAX}",
        {"since": reads.now_ms() - LETTERS_OVER_MS},
    )
    if not rows:
        return Letters()
    reason, _, _, total, lately = rows[0]
    by_kind: Counter[ReasonKind] = Counter()
    for each, count, *_ in rows:
        by_kind[kind_of(str(each))] += int(count)
    if unlisted := int(total) - by_kind.total():
        by_kind["other"] += unlisted
    return Letters(int(total), int(lately), str(reason), dict(by_kind))


def _rollup_ages(reads: Reads) -> dict[str, int]:
    """How long ago families were rolled up, by ClickHouse's own clock; the oldest of them."""
    rows = reads.rows(
        "SELECT name, dateDiff('millisecond', min(at), now64(3)) AS age_ms FROM ("  # noqa: S608 - a constant
        "SELECT toString(family) AS name, grain, max(rolled_up_at) AS at FROM tally.rollups "
        f"WHERE {live.OWN} GROUP BY name, grain) "
        f"GROUP BY name ORDER BY age_ms DESC, name LIMIT {LISTED_MAX}"
    )
    return {str(family): max(0, int(age_ms)) for family, age_ms in rows}


def _spills(reads: Reads) -> list[Spill]:
    """What was counted past caps in the slots of a day. Known families are those rolled up."""
    rows = reads.rows(
        "SELECT counter, sum(p) + sum(n) AS amount FROM tally.merged_1m "  # noqa: S608 - a constant
        f"WHERE {live.OWN} AND slot >= now() - INTERVAL 1 DAY AND counter IN ("
        f"SELECT concat(family, ':') FROM tally.rollups WHERE {live.OWN} "
        "UNION ALL SELECT {rest:String}) "
        f"GROUP BY counter HAVING amount > 0 ORDER BY amount DESC, counter LIMIT {LISTED_MAX}",
        {"rest": spill_counter("")},
    )
    return [Spill(counter.removesuffix(":"), counter, int(amount)) for counter, amount in rows]


def _reconciled(reads: Reads) -> Reconciliation:
    """What was found when log and ClickHouse were last compared, over all days."""
    rows = reads.rows(
        "SELECT shard, max(through), max(at), sum(found), argMax(text, found) FROM ("  # noqa: S608 - a constant
        "SELECT shard, argMax(reconciliations.through, checked_at) AS through, "
        "toUnixTimestamp64Milli(max(checked_at)) AS at, "
        "argMax(differences, checked_at) AS found, argMax(example, checked_at) AS text "
        f"FROM tally.reconciliations WHERE {live.OWN} GROUP BY shard, slot_day, against) "
        "GROUP BY shard ORDER BY shard"
    )
    if not rows:
        return Reconciliation()
    examples = [str(text) for _, _, _, found, text in rows if found]
    return Reconciliation(
        through={int(shard): int(through) for shard, through, *_ in rows if through >= 0},
        differences=sum(int(found) for _, _, _, found, _ in rows),
        checked_at=rfc3339(max(int(at_ms) for _, _, at_ms, _, _ in rows)),
        example=examples[0] if examples else None,
    )


def _control(reads: Reads) -> tuple[dict[int, int], int]:
    """When which version of the rules was applied, and when this build was declared."""
    rules = reads.rows(
        "SELECT version, toUnixTimestamp64Milli(min(applied_at)) FROM tally.rules "  # noqa: S608 - a constant
        f"GROUP BY version ORDER BY version DESC LIMIT {LISTED_MAX}"
    )
    [(declared_ms,)] = reads.rows(
        "SELECT toUnixTimestamp64Milli(argMax(declared_at, declaration)) "
        "FROM tally.builds WHERE cluster = ''"
    )
    return {int(version): int(at_ms) for version, at_ms in rules}, int(declared_ms)
