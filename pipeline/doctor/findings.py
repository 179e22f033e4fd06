"""What `tally doctor` says of each thing it looks at, and how it judges. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from schemas.rules import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.strict.strict_topics import Safety

State = Literal["ok", "warn", "fail"]

GIB = 1 << 30
FREE_BYTES_WARN = 5 * GIB
FREE_BYTES_FAIL = GIB // 2
FILES_WARN = 4096
FILES_FAIL = 256
CLOCK_WARN_MS = 1_000
CLOCK_FAIL_MS = 60_000
DAY_MS = 86_400_000
RETENTION_WARN_MS = DAY_MS
CERTIFICATE_WARN_MS = 14 * DAY_MS


class Finding(NamedTuple):
    """One line: what was looked at, how it is, and what to do unless it is well."""

    name: str
    state: State
    detail: str
    to_do: str = ""


def _graded(name: str, detail: str, to_do: str, warn: bool, fail: bool) -> Finding:
    if not warn and not fail:
        return Finding(name, "ok", detail)
    return Finding(name, "fail" if fail else "warn", detail, to_do)


def free_space(name: str, free_bytes: int, total_bytes: int) -> Finding:
    """Room on a disk."""
    detail = f"{free_bytes / GIB:.1f} GiB of {total_bytes / GIB:.1f} GiB are free"
    to_do = "make room: without it neither the log nor ClickHouse can write"
    return _graded(name, detail, to_do, free_bytes < FREE_BYTES_WARN, free_bytes < FREE_BYTES_FAIL)


def open_files(limit: int) -> Finding:
    """How many files a process may have open."""
    detail = f"a process may have {limit} files open"
    to_do = f"raise it, for instance with `ulimit -n {FILES_WARN}`: servers keep many files open"
    return _graded("open files", detail, to_do, limit < FILES_WARN, limit < FILES_FAIL)


def clock_of(whose: str, difference_ms: int, margin_ms: int) -> Finding:
    """Another clock against this machine's: `difference_ms` is how far it is ahead.

    `margin_ms` is what the question itself took, by which the difference may be wrong.
    """
    off_ms = max(0, abs(difference_ms) - margin_ms)
    side = "ahead of" if difference_ms > 0 else "behind"
    detail = f"{off_ms} ms {side} this machine's" if off_ms else "the same as this machine's"
    to_do = "set both by NTP: events carry the time of the machine they come from, and windows and "
    to_do += "lateness go by it"
    warn, fail = off_ms >= CLOCK_WARN_MS, off_ms >= CLOCK_FAIL_MS
    return _graded(f"clock of {whose}", detail, to_do, warn, fail)


def certificate_of(whose: str, version: str, left_ms: int) -> Finding:
    """A server's certificate by how long it is still good; clients have accepted it."""
    left = "less than a day" if left_ms < DAY_MS else f"{left_ms // DAY_MS} days"
    detail = f"{version}; the certificate is good for {left}"
    to_do = "renew it: once it has ended no client connects any more"
    return _graded(f"TLS of {whose}", detail, to_do, left_ms < CERTIFICATE_WARN_MS, fail=False)


def source_settings(topic: str, settings: Mapping[str, str]) -> Finding:
    """The log's settings: its own time, and long enough."""
    name = f"topic {topic}"
    kind, policy = settings.get("message.timestamp.type"), settings.get("cleanup.policy")
    if kind != "LogAppendTime":
        to_do = "set it to LogAppendTime and count into a new build"
        return Finding(name, "fail", f"message.timestamp.type is {kind}", to_do)
    if policy != "delete":
        to_do = "set it to delete: compaction takes increments away before they are counted"
        return Finding(name, "fail", f"cleanup.policy is {policy}", to_do)
    retention_ms = int(settings.get("retention.ms", "-1"))
    kept = "for ever" if retention_ms < 0 else f"for {format_duration(retention_ms)}"
    detail = f"LogAppendTime, kept {kept}"
    if 0 <= retention_ms < RETENTION_WARN_MS:
        to_do = "raise retention.ms: workers that are away for longer lose increments"
        return Finding(name, "warn", detail, to_do)
    return Finding(name, "ok", detail)


def compacted_settings(topic: str, settings: Mapping[str, str]) -> Finding:
    """A topic that must be compacted and nothing else."""
    policy = settings.get("cleanup.policy")
    if policy != "compact":
        to_do = "set it to compact: what is older than its retention would be lost"
        return Finding(f"topic {topic}", "fail", f"cleanup.policy is {policy}", to_do)
    return Finding(f"topic {topic}", "ok", "compacted")


def kept_settings(topic: str, settings: Mapping[str, str]) -> Finding:
    """A topic that should be kept for ever."""
    retention_ms = int(settings.get("retention.ms", "-1"))
    if retention_ms >= 0:
        detail = f"kept for {format_duration(retention_ms)}"
        to_do = "set retention.ms to -1, or what is older cannot be retried"
        return Finding(f"topic {topic}", "warn", detail, to_do)
    return Finding(f"topic {topic}", "ok", "kept for ever")


def copies(topic: str, brokers: int, replicas: int, in_sync_min: int) -> Finding:
    """How many brokers hold a topic, and how many must confirm a write."""
    name = f"copies of {topic}"
    detail = f"{replicas} on {brokers} brokers, min.insync.replicas {in_sync_min}"
    if brokers == 1:
        return Finding(name, "ok", "one, on the one broker there is")
    if replicas < 2:
        to_do = "give it more: with its broker it is away, and with its disk it is lost"
        return Finding(name, "warn", detail, to_do)
    if in_sync_min < 2:
        to_do = "set min.insync.replicas to 2, or a confirmed increment may be on one disk only"
        return Finding(name, "warn", detail, to_do)
    return Finding(name, "ok", detail)


def strict_copies(found: Safety) -> Finding:
    """Whether a decision of a strict counter that was told can be lost."""
    name, weakness = f"copies of {found.topic}", found.weakness
    if weakness is None:
        detail = f"{found.copies} on {found.brokers} brokers"
        return Finding(name, "ok", f"{detail}, min.insync.replicas {found.in_sync_min}")
    if found.is_alone:
        return Finding(name, "ok", "one, on the one broker there is; every write is synced")
    to_do = "give it three copies and min.insync.replicas=2; on one broker, flush.messages=1"
    return Finding(name, "warn", weakness, to_do)
