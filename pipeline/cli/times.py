"""Durations and moments as people type them: `60m`, `7d`, `2026-11-16`, `2026-11-16T08:00Z`."""

from datetime import UTC, datetime

import typer


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `60m`, `24h` or `7d`. Wrong usage otherwise."""
    from schemas.rules import parse_duration_ms  # noqa: PLC0415 - brings pydantic

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from error


def moment(text: str) -> datetime:
    """A moment in UTC; a text without an offset is taken as UTC. Wrong usage otherwise."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no time; write one as 2026-11-16 or 2026-11-16T08:00:00Z"
        ) from error
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
