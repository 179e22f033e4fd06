"""What is wrong with a running Tally, and what somebody should know of it. Pure.

A problem makes it unhealthy: counts are missing, wrong or not moving, and somebody must act. A
remark does not: counting goes on as it should, but perhaps not as somebody wished.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline import topics
from pipeline.reads.observed import FRESHNESS_OVER_MS
from pipeline.reads.plan_remarks import plan_remarks
from pipeline.reads.senders import sender_remarks
from schemas.rules import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.reads.observed import (
        Freshness,
        Letters,
        Observed,
        PlanStatus,
        Reconciliation,
        Spill,
    )
    from pipeline.reads.senders import Sender

CHECKPOINT_AGE_MS_MAX = 30_000
"""Older than this, the shard's worker is away or stuck, whatever its process does."""

BEHIND_MS_MAX = 60_000
"""How old the log may be where a shard counts. Heartbeats tell, and come every few seconds."""

FRESHNESS_MS_GOAL = 2_000
AHEAD_MS_MAX = 300_000
"""How far log time may be ahead of the clock before it is remarked: what `at` may be ahead, too."""

RULES_AGE_MS_MAX = 60_000
"""How long shards may need to come upon rules that were applied."""

ROLLUPS_MISSED_MAX = 3
ROLLUP_AGE_MS_MAX = 3_600_000
TRENDS_BEHIND_MS_MAX = 600_000
"""How far what is scored for trends may be behind what is flushed. A minute or two is usual."""

NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard: `lag` is how many offsets of the log are not in ClickHouse yet.

    `behind_ms` is how old the log is where a lagging shard counts, `ahead_ms` how far its log time
    is ahead of the clock. Ages and what was counted are None for a shard that nobody counted yet.
    """

    shard: int
    log_end: int
    flushed_through: int | None
    lag: int
    behind_ms: int
    ahead_ms: int
    flush_age_ms: int | None
    checkpoint_age_ms: int | None
    freshness_p99_ms: int | None
    rules_version: int | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean over shards beside the greatest, and whose that is."""

    mean: float
    greatest: int
    shard: int


@dataclass(frozen=True, slots=True)
class Status:
    """Every shard, what is known of all together, and in sentences what is wrong or notable.

    `trends_behind_ms` is how much log time all shards have flushed beyond the last minute that was
    scored for trends; None before one is, or while a shard was never flushed.
    """

    shards: list[ShardStatus]
    lag: Spread | None
    freshness: Freshness | None
    freshness_p99_ms: Spread | None
    dead_letters: Letters
    rollup_age_ms_max: int | None
    late_rollups: dict[str, int]
    trends_behind_ms: int | None
    capped: list[Spill]
    shard_plan: PlanStatus
    senders: list[Sender]
    reconciled: Reconciliation
    problems: list[str]
    remarks: list[str]

    @property
    def healthy(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {"healthy": self.healthy, **asdict(self)}


def judge(observed: Observed) -> Status:
    """What was observed means this."""
    shards = [_shard_status(shard, observed) for shard in observed.ends]
    p99s = {s.shard: s.freshness_p99_ms for s in shards if s.freshness_p99_ms is not None}
    ages_ms = observed.rollup_ages_ms
    return Status(
        shards=shards,
        lag=_spread({shard.shard: shard.lag for shard in shards}),
        freshness=observed.freshness,
        freshness_p99_ms=_spread(p99s),
        dead_letters=observed.letters,
        rollup_age_ms_max=max(ages_ms.values(), default=None),
        late_rollups={f: age for f, age in ages_ms.items() if age > _late_ms(observed)},
        trends_behind_ms=_trends_behind_ms(observed, observed.trends_until_ms),
        capped=list(observed.spills),
        shard_plan=observed.plan,
        senders=list(observed.senders),
        reconciled=observed.reconciled,
        problems=list(_problems(shards, observed)),
        remarks=list(_remarks(shards, observed)),
    )


def _problems(shards: list[ShardStatus], observed: Observed) -> Iterator[str]:
    if not shards:
        yield f"topic {topics.INCREMENTS} does not exist; start a worker to make it"
    if uncounted := [s for s in shards if s.checkpoint_age_ms is None]:
        yield f"no worker has checkpointed {_named(uncounted)} yet; is one running?"
    if stuck := [s for s in shards if (s.checkpoint_age_ms or 0) > CHECKPOINT_AGE_MS_MAX]:
        age_s = max(shard.checkpoint_age_ms or 0 for shard in stuck) // 1000
        yield (
            f"{_named(stuck)} not checkpointed for up to {age_s} s; "
            "is its worker running, and does ClickHouse answer?"
        )
    for shard, (refused_ms, reason) in sorted(observed.refusals.items()):
        position = observed.flushed.get(shard)
        if position is None or refused_ms > position.checkpointed_at_ms:
            yield f"shard {shard} is not counted on: {reason}"
    behind_max_ms = BEHIND_MS_MAX + observed.heartbeat_interval_ms
    if behind := [s for s in shards if s.behind_ms > behind_max_ms and s not in stuck]:
        worst = max(behind, key=lambda shard: shard.behind_ms)
        yield (
            f"{_named(behind)} up to {worst.behind_ms // 1000} s behind the log; if that grows, "
            "start more workers, or see whether ClickHouse is slow"
        )
    if closed := [s for s in shards if s.ahead_ms >= observed.lateness_ms_min]:
        yield (
            f"log time of {_named(closed)} is {_ahead(closed)} ahead of the clock, so that events "
            "of now are refused as too late; set the brokers' clocks, raise lateness in tally.toml "
            "above that, run tally rules apply, then tally dead-letters --retry"
        )
    yield from _rules_problems(shards, observed)
    yield from _rollup_problems(shards, observed)
    if differ := observed.reconciled.differences:
        yield (
            f"log and ClickHouse differ in {differ:,} {'number' if differ == 1 else 'numbers'}, "
            f"such as {observed.reconciled.example}; tally verify has all of them; count the log "
            "again with tally replay, then tally replay --check and --swap"
        )


def _rules_problems(shards: list[ShardStatus], observed: Observed) -> Iterator[str]:
    newest = max((s.rules_version or 0 for s in shards), default=0)
    older = [s for s in shards if s.rules_version is not None and s.rules_version < newest]
    applied_ms = observed.rules_applied_ms.get(newest)
    if older and applied_ms is not None and observed.now_ms - applied_ms > RULES_AGE_MS_MAX:
        yield (
            f"{_named(older)} not counted by the rules that others follow (version {newest}); if "
            "it does not lag, run tally rules apply again"
        )


def _rollup_problems(shards: list[ShardStatus], observed: Observed) -> Iterator[str]:
    age_max_ms = max(ROLLUP_AGE_MS_MAX, _late_ms(observed))
    since_ms = [
        observed.rolled_log_ms.get(shard.shard, observed.build_declared_ms)
        for shard in shards
        if shard.flushed_through is not None
    ]
    age_ms = observed.now_ms - min(since_ms, default=observed.now_ms)
    if age_ms > age_max_ms:
        yield (
            f"hours and days were not rolled up for {_roughly(age_ms)}: cached counts are as old, "
            "and nothing is dropped; the worker of partition 0 says why in what it prints"
        )


def _remarks(shards: list[ShardStatus], observed: Observed) -> Iterator[str]:
    fresh = observed.freshness
    expected = 3 * observed.heartbeat_interval_ms < FRESHNESS_OVER_MS
    if fresh is None and expected and any(s.checkpoint_age_ms is not None for s in shards):
        yield "no heartbeat was counted in the last 5 minutes, so freshness is not known"
    elif fresh is not None and fresh.p99_ms > FRESHNESS_MS_GOAL:
        yield (
            f"one count in a hundred took {fresh.p99_ms / 1000:.1f} s or longer to be visible; "
            "are the machines busy?"
        )
    if refused := observed.letters.last_hour:
        yield (
            f"{refused:,} {'event was' if refused == 1 else 'events were'} refused in the last "
            "hour, most as: "
            f"{observed.letters.reason or ''}; see tally dead-letters"
        )
    late = [name for name, age in observed.rollup_ages_ms.items() if age > _late_ms(observed)]
    if late:
        yield f"rollups of {_families(late)} are late, so that their cached counts are old"
    yield from _trends_remarks(shards, observed)
    yield from plan_remarks(observed.plan)
    yield from sender_remarks(observed.senders)
    for spill in observed.spills:
        yield (
            f"{_families([spill.family])} had more counters than its cap allows: {spill.amount:,} "
            f"of the last day are under {spill.counter}; raise cells_max in tally.toml "
            "and run tally rules apply, or count fewer things"
        )
    ahead = [s for s in shards if AHEAD_MS_MAX < s.ahead_ms < observed.lateness_ms_min]
    if ahead:
        yield (
            f"log time of {_named(ahead)} is {_ahead(ahead)} ahead of the clock: a record was "
            "stamped so, and what is too late is judged by it; set the brokers' clocks; it passes "
            "when that time has come"
        )
    unknown = max((s.rules_version or 0 for s in shards), default=0)
    if unknown > max(observed.rules_applied_ms, default=0):
        yield (
            f"rules version {unknown} may not be in every partition: their applying is not "
            "finished, or was cut short; then run tally rules apply"
        )


def _trends_remarks(shards: list[ShardStatus], observed: Observed) -> Iterator[str]:
    """None while a worker is away: nothing can be scored then, and that is told already."""
    if any((s.checkpoint_age_ms or 0) > CHECKPOINT_AGE_MS_MAX for s in shards):
        return
    since_ms = observed.trends_until_ms or observed.build_declared_ms
    behind_ms = _trends_behind_ms(observed, since_ms) or 0
    if behind_ms > max(TRENDS_BEHIND_MS_MAX, ROLLUPS_MISSED_MAX * observed.trends_interval_ms):
        yield (
            f"trends were not scored for {_roughly(behind_ms)} of log time, so that what trends is "
            "as old; the worker of partition 0 says why in what it prints"
        )


def _trends_behind_ms(observed: Observed, since_ms: int) -> int | None:
    logs_ms = [shard.log_ms for shard in observed.flushed.values()]
    if not since_ms or not logs_ms or observed.ends.keys() - observed.flushed.keys():
        return None
    return max(0, min(logs_ms) - since_ms)


def _shard_status(shard: int, observed: Observed) -> ShardStatus:
    end, flushed = observed.ends[shard], observed.flushed.get(shard)
    fresh = observed.shard_freshness.get(shard)
    if flushed is None:
        return ShardStatus(shard, end, None, end, 0, 0, None, None, None, None)
    now_ms, checkpointed_ms = observed.now_ms, flushed.checkpointed_at_ms
    lag = max(0, end - 1 - flushed.flushed_through)
    return ShardStatus(
        shard=shard,
        log_end=end,
        flushed_through=flushed.flushed_through,
        lag=lag,
        # Before its first record a shard has no log time.
        behind_ms=max(0, now_ms - flushed.log_ms) if lag and flushed.log_ms > 0 else 0,
        ahead_ms=max(0, flushed.log_ms - now_ms),
        flush_age_ms=max(0, now_ms - flushed.flushed_at_ms),
        checkpoint_age_ms=max(0, now_ms - checkpointed_ms) if checkpointed_ms else None,
        freshness_p99_ms=None if fresh is None else fresh.p99_ms,
        rules_version=flushed.rules_version,
    )


def _spread(values: Mapping[int, int]) -> Spread | None:
    if not values:
        return None
    shard = max(values, key=lambda key: values[key])
    return Spread(round(sum(values.values()) / len(values), 1), values[shard], shard)


def _late_ms(observed: Observed) -> int:
    """From which age on a rollup is late."""
    return ROLLUPS_MISSED_MAX * observed.rollup_interval_ms


def _named(shards: list[ShardStatus]) -> str:
    noun = "shard" if len(shards) == 1 else "shards"
    return f"{noun} {', '.join(str(shard.shard) for shard in shards)}"


def _families(names: list[str]) -> str:
    shown = [name or "those that no rule names" for name in names[:NAMED_MAX]]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{'family' if len(names) == 1 else 'families'} {', '.join(shown)}{more}"


def _ahead(shards: list[ShardStatus]) -> str:
    return _roughly(max(shard.ahead_ms for shard in shards))


def _roughly(duration_ms: int) -> str:
    """A duration in its greatest unit that fits at least twice."""
    for unit_ms in (86_400_000, 3_600_000, 60_000):
        if duration_ms >= 2 * unit_ms:
            return format_duration(duration_ms - duration_ms % unit_ms)
    return f"{duration_ms // 1000}s"
