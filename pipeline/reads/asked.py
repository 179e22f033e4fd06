"""Times as people ask for them: `60m`, `2026-11-16`, `2026-11-16T08:00Z`. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeline.errors import BadInputError
from pipeline.reads.spans import Span
from schemas.rules import parse_duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `60m`, `24h` or `7d`. Raises BadInputError."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise BadInputError(f"{text!r}: {error}") from error


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of a time; one without an offset is UTC. Raises BadInputError."""
    try:
        parsed = datetime.fromisoformat(text)
        moment = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f"{text!r} is no time; write one as 2026-11-16 or 2026-11-16T08:00:00Z"
        ) from error
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def asked_span(last: str | None, since: str | None, until: str | None, now_ms: int) -> Span | None:
    """The time asked for, None for all of it.

    Raises BadInputError if it is no time, or asked for twice.
    """
    if last is not None and since is not None:
        raise BadInputError("give last or since, not both")
    since_ms = None if since is None else moment_ms(since)
    until_ms = None if until is None else moment_ms(until)
    if last is not None:
        since_ms = now_ms - duration_ms(last)
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise BadInputError("the time asked for ends before it begins")
    return Span.of(since_ms, until_ms)
