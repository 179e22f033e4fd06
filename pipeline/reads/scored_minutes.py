# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The rankings of minutes that were scored, and of the one that is not over, from ClickHouse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.reads import live, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import Reads

MINUTE_MS = 60_000

_COLUMNS = (
    "rank, counter, observed, expected, score, toString(kind), horizon_minutes, "
    "toUnixTimestamp(entered)"
)
_PLACE = f"{live.OWN} AND family = {{family:String}} AND region = {{region:String}}"
_WINDOW = "window = toDateTime({window_s:UInt32}, 'UTC')"
_FIRST_AND_LAST = (
    "SELECT toUnixTimestamp(min(window)), toUnixTimestamp(max(window)) "
    f"FROM tally.trend_windows WHERE {live.OWN}"
)
_IS_SCORED = f"SELECT 1 FROM tally.trend_windows WHERE {live.OWN} AND {_WINDOW} LIMIT 1"
_SCORED = f"SELECT {_COLUMNS} FROM tally.trend_rankings WHERE {_PLACE} AND {_WINDOW} ORDER BY rank"
# All rows of a pass have the same moment, which is how the view knows them, too.
_LAST_PASS = (
    "SELECT toUnixTimestamp(argMax(window, scored_at)), toUnixTimestamp64Milli(max(scored_at)) "
    f"FROM tally.trend_open WHERE {live.OWN}"
)
_PROVISIONAL = (
    f"SELECT {_COLUMNS} FROM tally.trend_provisional FINAL WHERE {_PLACE} "
    "AND scored_at = fromUnixTimestamp64Milli({pass_ms:Int64}) ORDER BY rank"
)


@dataclass(frozen=True, slots=True)
class ScoredMinutes:
    """The first and the last minute that was scored: when each begins."""

    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute's ranking, as of when it is, and why there is none where there is none.

    It is as of the minute's end; while that is not over, as of when it was scored. Rows are rank,
    counter, observed, expected, score, kind, horizon in minutes, and since when in seconds.
    """

    window_ms: int | None
    as_of_ms: int | None = None
    rows: Sequence[Sequence[Any]] = ()
    missing: str | None = None


def scored_minutes(reads: Reads) -> ScoredMinutes | None:
    """Of the current build; None before the first one. Blocks; raises TryAgainError."""
    [(first_s, last_s)] = reads.rows(_FIRST_AND_LAST)
    return ScoredMinutes(int(first_s) * 1000, int(last_s) * 1000) if last_s else None


def scored_minute(reads: Reads, family: str, region: str, at_ms: int | None) -> Minute:
    """The minute that a moment is in, or the last that was scored. Blocks; raises TryAgainError."""
    scored = scored_minutes(reads)
    if scored is None:
        return _NONE
    window_ms = scored.last_ms
    if at_ms is not None:
        window_ms = spans.window_of(at_ms, "1m")
        if not _is_scored(reads, window_ms, scored):
            first, last = spans.window_text(scored.first_ms), spans.window_text(scored.last_ms)
            named = spans.window_text(window_ms)
            return Minute(
                window_ms,
                missing=f"minute {named} was not scored; the first that was is {first}, the last "
                f"is {last}",
            )
    place = {"family": family, "region": region}
    rows = reads.rows(_SCORED, {**place, "window_s": window_ms // 1000})
    return Minute(window_ms, window_ms + MINUTE_MS, rows)


def open_minute(reads: Reads, family: str, region: str) -> Minute:
    """The minute that is not over, as it was scored last. Blocks; raises TryAgainError."""
    scored = scored_minutes(reads)
    if scored is None:
        return _NONE
    [(window_s, pass_ms)] = reads.rows(_LAST_PASS)
    if window_s * 1000 <= scored.last_ms:
        return Minute(
            None,
            missing="the minute that is not over was not looked at lately; the last one that is "
            f"over and scored is {spans.window_text(scored.last_ms)}",
        )
    place = {"family": family, "region": region}
    rows = reads.rows(_PROVISIONAL, {**place, "pass_ms": pass_ms})
    return Minute(int(window_s) * 1000, int(pass_ms), rows)


_NONE = Minute(
    None,
    missing="no minute was scored yet: that begins about three minutes after a worker starts, when "
    "log time is past a minute and the next one",
)


def _is_scored(reads: Reads, window_ms: int, scored: ScoredMinutes) -> bool:
    if not scored.first_ms <= window_ms <= scored.last_ms:
        return False
    return bool(reads.rows(_IS_SCORED, {"window_s": window_ms // 1000}))
