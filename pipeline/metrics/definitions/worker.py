"""What one worker tells of itself. Counts are of this process, since its start."""

from typing import Literal, NamedTuple

from pipeline.metrics.definition import Counter, Gauge, Histogram, Unlabelled
from pipeline.metrics.definitions.buckets import FRESHNESS_SECONDS, QUICK_SECONDS, SLOW_SECONDS
from pipeline.reason_kinds import ReasonKind

WriteKind = Literal["flush", "checkpoint"]
Duty = Literal["rollup", "trends", "plan", "partitions", "reconcile"]


class ByWrite(NamedTuple):
    """Whether a write was a flush alone, or a checkpoint."""

    write: WriteKind


class ByKind(NamedTuple):
    """Why a dead letter is one."""

    kind: ReasonKind


class ByInsert(NamedTuple):
    """What became of an insert: refused by a ClickHouse that answered, or failed without answer."""

    outcome: Literal["stored", "refused", "failed"]


class ByDuty(NamedTuple):
    """What the leader does for all."""

    duty: Duty


class ByCommand(NamedTuple):
    """What became of a command: `read_again` after a takeover, `unreadable` if it is none."""

    outcome: Literal["accepted", "refused", "repeated", "unreadable", "read_again"]


FETCHES = Counter(
    "tally_worker_fetches_total",
    Unlabelled,
    "Fetches of increments that were counted; one is of one partition.",
)
RECORDS = Counter(
    "tally_worker_records_total",
    Unlabelled,
    "Records in these fetches: events, frames, heartbeats, rules and adjustments.",
)
ROWS = Counter(
    "tally_worker_rows_total",
    Unlabelled,
    "Increments decoded from these records, those refused as too late or too early among them.",
)
FETCHED_BYTES = Counter(
    "tally_worker_fetched_bytes_total",
    Unlabelled,
    "Bytes of these fetches as they came, compressed if their producers compress.",
)
DEAD_LETTERS = Counter(
    "tally_worker_dead_letters_total",
    ByKind,
    "Dead letters by the kind of their reason; what is read again after a crash counts again.",
)
WRITE_SECONDS = Histogram(
    "tally_worker_write_seconds",
    ByWrite,
    "How long flushes and checkpoints took that succeeded.",
    SLOW_SECONDS,
)
WRITE_FAILURES = Counter(
    "tally_worker_write_failures_total",
    ByWrite,
    "Flushes and checkpoints that failed and are tried again.",
)
FLUSH_AGE = Gauge(
    "tally_worker_flush_age_seconds",
    Unlabelled,
    "How long ago this worker last flushed, or checkpointed; before it did, how long it runs.",
)
CHECKPOINT_AGE = Gauge(
    "tally_worker_checkpoint_age_seconds",
    Unlabelled,
    "How long ago this worker last checkpointed; before it did, how long it runs.",
)
INSERTS = Counter(
    "tally_worker_inserts_total",
    ByInsert,
    "Blocks of rows that were sent to ClickHouse, by what became of them.",
)
INSERTED_ROWS = Counter(
    "tally_worker_inserted_rows_total",
    Unlabelled,
    "Rows of all tables that ClickHouse has confirmed.",
)
UNFLUSHED_ROWS = Gauge(
    "tally_worker_unflushed_rows",
    Unlabelled,
    "Increments that are counted and not in ClickHouse yet.",
)
ROOM_WAITS = Counter(
    "tally_worker_room_waits_total",
    Unlabelled,
    "How often reading paused because too much was not written yet.",
)
ROOM_WAIT_SECONDS = Counter(
    "tally_worker_room_wait_seconds_total",
    Unlabelled,
    "How long reading paused for that, summed over partitions.",
)
LIVE_CELLS = Gauge(
    "tally_worker_live_cells",
    Unlabelled,
    "Cells in memory, as of the last flush.",
)
OWNED_SHARDS = Gauge(
    "tally_worker_owned_shards",
    Unlabelled,
    "Shards that this worker counts now.",
)
LEADS = Gauge(
    "tally_worker_leads",
    Unlabelled,
    "1 if this worker owns partition 0, and so does the duties of the leader; else 0.",
)
REBALANCES = Counter(
    "tally_worker_rebalances_total",
    Unlabelled,
    "How often this worker was given its partitions, the first time included.",
)
RECOVERY_SECONDS = Histogram(
    "tally_worker_recovery_seconds",
    Unlabelled,
    "How long it took from losing partitions, or from the start, until counting went on.",
    SLOW_SECONDS,
)
FRESHNESS = Histogram(
    "tally_worker_freshness_seconds",
    Unlabelled,
    "How long heartbeats took from the log into ClickHouse, of the shards of this worker.",
    FRESHNESS_SECONDS,
)
PASS_SECONDS = Histogram(
    "tally_leader_pass_seconds",
    ByDuty,
    "How long passes of the leader's duties took, failed ones too.",
    SLOW_SECONDS,
)
PASS_FAILURES = Counter(
    "tally_leader_pass_failures_total",
    ByDuty,
    "Passes of the leader's duties that failed, or that ClickHouse refused a part of.",
)
STRICT_COMMANDS = Counter(
    "tally_strict_commands_total",
    ByCommand,
    "Commands to strict counters that this worker decided, by what became of them.",
)
STRICT_DECISION_SECONDS = Histogram(
    "tally_strict_decision_seconds",
    Unlabelled,
    "From a command's time in the log until its answer was safe in the changelog.",
    QUICK_SECONDS,
)
STRICT_LAG = Gauge(
    "tally_strict_lag_records",
    Unlabelled,
    "Commands in the log that this worker has to decide and has not.",
)
STRICT_PARTITIONS = Gauge(
    "tally_strict_partitions",
    Unlabelled,
    "Partitions of strict counters that this worker decides.",
)

WORKER = (
    FETCHES,
    RECORDS,
    ROWS,
    FETCHED_BYTES,
    DEAD_LETTERS,
    WRITE_SECONDS,
    WRITE_FAILURES,
    FLUSH_AGE,
    CHECKPOINT_AGE,
    INSERTS,
    INSERTED_ROWS,
    UNFLUSHED_ROWS,
    ROOM_WAITS,
    ROOM_WAIT_SECONDS,
    LIVE_CELLS,
    OWNED_SHARDS,
    LEADS,
    REBALANCES,
    RECOVERY_SECONDS,
    FRESHNESS,
    PASS_SECONDS,
    PASS_FAILURES,
    STRICT_COMMANDS,
    STRICT_DECISION_SECONDS,
    STRICT_LAG,
    STRICT_PARTITIONS,
)
