"""What the embedded log tells of itself."""

from typing import Literal, NamedTuple

from pipeline.metrics.definition import Counter, Gauge, Histogram, Unlabelled
from pipeline.metrics.definitions.buckets import QUICK_SECONDS


class ByApi(NamedTuple):
    """A request of the Kafka protocol, such as `produce`."""

    api: str


class ByError(NamedTuple):
    """A request, and the protocol's name of the error it was answered with."""

    api: str
    error: str


class ByWaiting(NamedTuple):
    """What a request waits for: those before it on its connection, or records to fetch."""

    waits_for: Literal["turn", "records"]


CONNECTIONS = Gauge("tally_log_connections", Unlabelled, "Clients that are connected.")
REQUESTS = Counter(
    "tally_log_requests_total",
    ByApi,
    "Requests that were taken up, by what they ask for.",
)
REQUEST_ERRORS = Counter(
    "tally_log_request_errors_total",
    ByError,
    "Requests answered with an error, by the first one; `malformed` ended the connection.",
)
REQUESTS_WAITING = Gauge(
    "tally_log_requests_waiting",
    ByWaiting,
    "Requests that wait to be taken up, or that wait for records.",
)
UNREAD_BYTES = Gauge(
    "tally_log_unread_bytes",
    Unlabelled,
    "Bytes of requests that were not taken up yet.",
)
PRODUCED_BYTES = Counter(
    "tally_log_produced_bytes_total",
    Unlabelled,
    "Bytes of record batches that were stored, as they came.",
)
PRODUCED_RECORDS = Counter(
    "tally_log_produced_records_total",
    Unlabelled,
    "Records that were stored; one that a producer repeated is not counted again.",
)
FETCHED_BYTES = Counter(
    "tally_log_fetched_bytes_total",
    Unlabelled,
    "Bytes of record batches that were given to consumers.",
)
FETCHED_RECORDS = Counter(
    "tally_log_fetched_records_total",
    Unlabelled,
    "Offsets that were given to consumers, those that compaction has emptied among them.",
)
TOPICS = Gauge("tally_log_topics", Unlabelled, "Topics that there are.")
PARTITIONS = Gauge("tally_log_partitions", Unlabelled, "Partitions of all topics together.")
GROUPS = Gauge("tally_log_groups", Unlabelled, "Consumer groups that are known.")
SYNC_SECONDS = Histogram(
    "tally_log_sync_seconds",
    Unlabelled,
    "How long it took to force what was written to the disk.",
    QUICK_SECONDS,
)

LOG = (
    CONNECTIONS,
    REQUESTS,
    REQUEST_ERRORS,
    REQUESTS_WAITING,
    UNREAD_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    FETCHED_BYTES,
    FETCHED_RECORDS,
    TOPICS,
    PARTITIONS,
    GROUPS,
    SYNC_SECONDS,
)
