"""Which windows add up to a span of time, where old minutes and hours are gone already. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.reads.moments import rfc3339
from pipeline.rollup.retention import KEPT_MIN_MS
from pipeline.rules import EARLINESS_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schemas.rules import Grain, Retention

GRAIN_MS: dict[Grain, int] = {"1m": 60_000, "1h": 3_600_000, "1d": 86_400_000}
NAMES: dict[Grain, str] = {"1m": "minutes", "1h": "hours", "1d": "days"}

FOREVER_MS = (2**32 - 1) * 1000
"""The last moment that ClickHouse's DateTime knows; the first is 0."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `since_ms` up to, not including, `until_ms`. A window is in it if it begins in it."""

    since_ms: int = 0
    until_ms: int = FOREVER_MS

    @staticmethod
    def of(since_ms: int | None, until_ms: int | None) -> Span | None:
        """The span between moments that may be left out; None for all time."""
        if since_ms is None and until_ms is None:
            return None
        bounds = (0 if since_ms is None else since_ms, FOREVER_MS if until_ms is None else until_ms)
        return Span(*(min(max(bound, 0), FOREVER_MS) for bound in bounds))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a span with the grain of the windows to add up in it; `life` has no windows."""

    grain: Grain | Literal["life"]
    span: Span = Span()


LIFE = Piece("life")

Kept = dict["Grain", int]
"""For each grain, from when on all its windows are sure to be there."""


def kept_since(retention: Retention, now_ms: int) -> Kept:
    """What the retention of a family leaves at a moment.

    Retention goes by log time, and a window may be ahead of that by the earliness.
    """
    kept_ms: Mapping[Grain, int | None] = {
        "1m": retention.minute_ms,
        "1h": retention.hour_ms,
        "1d": retention.day_ms,
    }
    return {
        grain: 0 if kept is None else max(0, now_ms - max(kept, KEPT_MIN_MS) + EARLINESS_MS)
        for grain, kept in kept_ms.items()
    }


def pieces(span: Span | None, by: Grain | None, kept: Kept) -> list[Piece]:
    """What to add up, none of it twice: the finest windows that are still there.

    For all time that is the lifetime total, beside the windows of the grain asked for.
    """
    if span is None:
        return [LIFE, Piece(by)] if by else [LIFE]
    if by and span.since_ms >= kept[by] and not _cuts(span, by):
        return [Piece(by, span)]
    minutes_ms, hours_ms = _ceil(kept["1m"], "1h"), _ceil(kept["1h"], "1d")
    if hours_ms > minutes_ms:  # Hours that are kept shorter than minutes are of no use.
        minutes_ms = hours_ms = _ceil(minutes_ms, "1d")
    parts: list[tuple[Grain, int, int]] = [
        ("1d", span.since_ms, min(span.until_ms, hours_ms)),
        ("1h", max(span.since_ms, hours_ms), min(span.until_ms, minutes_ms)),
        ("1m", max(span.since_ms, minutes_ms), span.until_ms),
    ]
    return [Piece(grain, Span(since, until)) for grain, since, until in parts if since < until]


def remarks(span: Span | None, by: Grain | None, chosen: Sequence[Piece], kept: Kept) -> list[str]:
    """What a reader of the sum should know of it, in sentences."""
    if span is None:
        return []
    said = []
    for piece in chosen:
        grain = piece.grain
        if grain == "life":
            continue
        if grain != "1m" and _is_cut_in(span, piece, grain):
            said.append(
                f"before {window_text(piece.span.until_ms)} only {NAMES[grain]} are left: those "
                "that begin in the time asked for are summed"
            )
        if by and GRAIN_MS[by] < GRAIN_MS[grain]:
            said.append(
                f"{NAMES[by]} before {window_text(piece.span.until_ms)} are gone: they are in the "
                "total, but not listed"
            )
    if span.since_ms < kept["1d"]:
        said.append(
            f"days before {window_text(kept['1d'])} are gone: only the total of all time has them"
        )
    return said


def window_of(at_ms: int, grain: Grain) -> int:
    """When the window that a moment is in begins."""
    return at_ms - at_ms % GRAIN_MS[grain]


def window_text(at_ms: int) -> str:
    """A window as people and programs read it; windows begin at whole seconds."""
    return rfc3339(at_ms).replace(".000Z", "Z")


def _ceil(at_ms: int, grain: Grain) -> int:
    return -(-at_ms // GRAIN_MS[grain]) * GRAIN_MS[grain]


def _cuts(span: Span, grain: Grain) -> bool:
    """Whether the span begins or ends inside of a window."""
    bounds = [span.since_ms] if span.until_ms == FOREVER_MS else [span.since_ms, span.until_ms]
    return any(bound % GRAIN_MS[grain] for bound in bounds)


def _is_cut_in(span: Span, piece: Piece, grain: Grain) -> bool:
    """Whether the span begins or ends inside of a window of the piece."""
    begins = span.since_ms == piece.span.since_ms and span.since_ms % GRAIN_MS[grain] != 0
    ends = span.until_ms == piece.span.until_ms and span.until_ms % GRAIN_MS[grain] != 0
    return begins or (ends and span.until_ms != FOREVER_MS)
