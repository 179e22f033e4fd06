"""What can be seen of a running Tally from outside, at one moment. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.reads import FlushedShard
    from pipeline.reads.senders import Sender
    from pipeline.reason_kinds import ReasonKind

FRESHNESS_OVER_MS = 300_000
"""Of which time heartbeats are looked at."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long heartbeats took from the log into ClickHouse, of the last minutes."""

    samples: int
    p50_ms: int
    p99_ms: int


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters: how many ever and in the last hour, and what most of them are refused for.

    `by_kind` has all of them by the kind of their reason, but for kinds that none is of.
    """

    total: int = 0
    last_hour: int = 0
    reason: str | None = None
    by_kind: Mapping[ReasonKind, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spill:
    """What a family counted past its cap within a day, and the counter it is under."""

    family: str
    counter: str
    amount: int


@dataclass(frozen=True, slots=True)
class HotCounter:
    """A counter with the rows a second that producers send of it, and its shards."""

    counter: str
    rate: float
    shards: int


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The shard plan: how many counters are split, and which of them into most shards.

    `hottest` is by rate. `capped` have more for each shard than is wanted, and no partition is
    left to split them further; `over_sharded` have many shards for little. `unreadable` is why
    nothing is known of the plan.
    """

    split: int = 0
    most_split: HotCounter | None = None
    hottest: HotCounter | None = None
    capped: Sequence[HotCounter] = ()
    over_sharded: Mapping[str, int] = field(default_factory=dict)
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Log and ClickHouse, as they were last compared: through which offset of each shard.

    `differences` are those that stand; `checked_at` is None before the first comparison.
    """

    through: Mapping[int, int] = field(default_factory=dict)
    differences: int = 0
    checked_at: str | None = None
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What Kafka and ClickHouse said at `now_ms`; by shard, where nothing else is said.

    `rollup_ages_ms` are the oldest, by family. `rules_applied_ms` is by version. `trends_until_ms`
    is when the last minute that was scored for trends ended, 0 if none was.
    """

    now_ms: int
    ends: Mapping[int, int]
    flushed: Mapping[int, FlushedShard]
    refusals: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    freshness: Freshness | None = None
    shard_freshness: Mapping[int, Freshness] = field(default_factory=dict)
    letters: Letters = Letters()
    rolled_log_ms: Mapping[int, int] = field(default_factory=dict)
    rollup_ages_ms: Mapping[str, int] = field(default_factory=dict)
    spills: Sequence[Spill] = ()
    rules_applied_ms: Mapping[int, int] = field(default_factory=dict)
    trends_until_ms: int = 0
    build_declared_ms: int = 0
    rollup_interval_ms: int = 60_000
    trends_interval_ms: int = 10_000
    heartbeat_interval_ms: int = 5_000
    lateness_ms_min: int = 86_400_000
    plan: PlanStatus = PlanStatus()
    senders: Sequence[Sender] = ()
    reconciled: Reconciliation = Reconciliation()
