"""What the web API tells of itself. A route is its template, never the path that was asked for."""

from typing import Literal, NamedTuple

from pipeline.metrics.definition import Counter, Gauge, Histogram, Unlabelled
from pipeline.metrics.definitions.buckets import QUICK_SECONDS

StatusClass = Literal["1xx", "2xx", "3xx", "4xx", "5xx"]
ReadMode = Literal["cached", "exact", "live"]
ReadOutcome = Literal["complete", "incomplete", "refused", "failed"]
RefusalReason = Literal["no_token", "not_allowed", "too_fast", "too_large", "too_slow"]


class ByRequest(NamedTuple):
    """A route's template, the method, and the class of the answer's status."""

    route: str
    method: str
    status: StatusClass


class ByRoute(NamedTuple):
    """A route's template."""

    route: str


class ByRead(NamedTuple):
    """How a count was read. `incomplete`: a shard could not be asked; `refused`: a bad question."""

    mode: ReadMode
    outcome: ReadOutcome


class ByLookup(NamedTuple):
    """Whether the cache had what was asked for."""

    outcome: Literal["hit", "miss"]


class ByWait(NamedTuple):
    """What a wait for a receipt ended with."""

    outcome: Literal["counted", "timed_out", "failed"]


class ByIncrement(NamedTuple):
    """What became of an increment; `unknown` if the log's answer did not come in time."""

    outcome: Literal["accepted", "refused", "unknown"]


class ByAnswer(NamedTuple):
    """What a command to a strict counter was answered; `unknown` if nothing came in time."""

    outcome: Literal["accepted", "refused", "unknown"]


class ByReason(NamedTuple):
    """Why a request was turned away."""

    reason: RefusalReason


REQUESTS = Counter(
    "tally_web_requests_total",
    ByRequest,
    "Requests that were answered, by route template, method and class of status.",
)
REQUEST_SECONDS = Histogram(
    "tally_web_request_seconds",
    ByRoute,
    "How long answers took, by route template; streams until their first byte.",
    QUICK_SECONDS,
)
READS = Counter(
    "tally_web_reads_total",
    ByRead,
    "Counts that were read, by the mode that was asked for and what came of it.",
)
READS_CACHED = Counter(
    "tally_reads_cached_total",
    Unlabelled,
    "Reads of counts that asked for the mode cached.",
)
READS_FALLBACK = Counter(
    "tally_reads_fallback_total",
    Unlabelled,
    "Cached reads that cache or rollup could not answer as they should: by the exact sum, or late.",
)
CACHE_LOOKUPS = Counter(
    "tally_web_cache_lookups_total",
    ByLookup,
    "Looks into the cache of counts.",
)
CACHE_REFRESHES = Counter(
    "tally_web_cache_refreshes_total",
    Unlabelled,
    "How often entries of the cache were read anew.",
)
CACHE_ENTRIES = Gauge("tally_web_cache_entries", Unlabelled, "Counters that the cache holds.")
RECEIPT_WAITS = Counter(
    "tally_web_receipt_waits_total",
    ByWait,
    "Reads that waited until a receipt was counted, by how that ended.",
)
RECEIPT_WAIT_SECONDS = Histogram(
    "tally_web_receipt_wait_seconds",
    Unlabelled,
    "How long reads waited for a receipt.",
    QUICK_SECONDS,
)
INCREMENTS = Counter(
    "tally_web_increments_total",
    ByIncrement,
    "Increments that came over HTTP, by what became of them.",
)
STRICT_ANSWERS = Counter(
    "tally_web_strict_answers_total",
    ByAnswer,
    "Answers to commands to strict counters, repeated ones among them.",
)
STRICT_ANSWER_SECONDS = Histogram(
    "tally_web_strict_answer_seconds",
    Unlabelled,
    "How long commands to strict counters waited for their answers.",
    QUICK_SECONDS,
)
SSE_CLIENTS = Gauge(
    "tally_web_sse_clients",
    Unlabelled,
    "Clients that follow server-sent events now.",
)
REFUSALS = Counter(
    "tally_web_refusals_total",
    ByReason,
    "Requests that were turned away before they were looked at, by reason.",
)

WEB = (
    REQUESTS,
    REQUEST_SECONDS,
    READS,
    READS_CACHED,
    READS_FALLBACK,
    CACHE_LOOKUPS,
    CACHE_REFRESHES,
    CACHE_ENTRIES,
    RECEIPT_WAITS,
    RECEIPT_WAIT_SECONDS,
    INCREMENTS,
    STRICT_ANSWERS,
    STRICT_ANSWER_SECONDS,
    SSE_CLIENTS,
    REFUSALS,
)
