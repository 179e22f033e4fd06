"""Durations and moments as people type them: `60m`, `7d`, `2026-11-16`, `2026-11-16T08:00Z`."""

import re
from datetime import UTC, datetime

import typer

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `60m`, `24h` or `7d`. Wrong usage otherwise."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no duration; write one as 90s, 60m, 24h or 7d")
    return int(match[1]) * _UNIT_MS[match[2]]


def moment(text: str) -> datetime:
    """A moment in UTC; a text without an offset is taken as UTC. Wrong usage otherwise."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no time; write one as 2026-11-16 or 2026-11-16T08:00:00Z"
        ) from error
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
