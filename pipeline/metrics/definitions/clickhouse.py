"""What the door of the embedded ClickHouse tells of itself."""

from typing import Literal, NamedTuple

from pipeline.metrics.definition import Counter, Gauge, Histogram, Unlabelled
from pipeline.metrics.definitions.buckets import QUICK_SECONDS

QueryKind = Literal["read", "insert", "other", "unknown"]
"""`unknown` is a query that was refused or given up before its statement was read."""

QueryOutcome = Literal["answered", "failed", "given_up"]


class ByQuery(NamedTuple):
    """What a query does, and how it ended; `given_up` if its client left first."""

    kind: QueryKind
    outcome: QueryOutcome


class ByKind(NamedTuple):
    """What a query does."""

    kind: QueryKind


QUERIES = Counter(
    "tally_clickhouse_queries_total",
    ByQuery,
    "Queries that ended, by what they do and how they ended.",
)
QUERY_SECONDS = Histogram(
    "tally_clickhouse_query_seconds",
    ByKind,
    "How long queries took until their answer had left, waiting for their turn included.",
    QUICK_SECONDS,
)
QUERIES_RUNNING = Gauge(
    "tally_clickhouse_queries_running",
    Unlabelled,
    "Queries that the engine runs now.",
)
QUERIES_WAITING = Gauge(
    "tally_clickhouse_queries_waiting",
    Unlabelled,
    "Queries that wait for their turn.",
)
RECEIVED_BYTES = Counter(
    "tally_clickhouse_received_bytes_total",
    Unlabelled,
    "Bytes of queries' bodies as they came, compressed if clients compress.",
)
SENT_BYTES = Counter(
    "tally_clickhouse_sent_bytes_total",
    Unlabelled,
    "Bytes of answers' bodies as they left.",
)
SESSIONS = Gauge("tally_clickhouse_sessions", Unlabelled, "Named sessions that are kept.")

CLICKHOUSE = (
    QUERIES,
    QUERY_SECONDS,
    QUERIES_RUNNING,
    QUERIES_WAITING,
    RECEIVED_BYTES,
    SENT_BYTES,
    SESSIONS,
)
