"""Which windows to read for a span of time, whatever has been dropped already. Pure.

Retention is known to the workers that drop, and to nobody who asks. So nothing here goes by it:
days are exact for ever after, hours stand beside their day, and minutes beside their hour, which
shows whether any of them are gone. Only what no retention can have dropped yet is read alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.reads.moments import rfc3339
from pipeline.rollup.retention import KEPT_MIN_MS
from pipeline.rules import EARLINESS_MS
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.rules import Grain

FINER: dict[Grain, Grain] = {"1d": "1h", "1h": "1m"}

FOREVER_MS = (2**32 - 1) * 1000
"""The last moment that ClickHouse's DateTime knows; the first is 0."""

QUERY_MAX_MS = 1_800_000
"""A query that looks at a few counters is over by then, and the sliding day is in what is sure."""


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
    """Windows of a grain to read; `life` has no windows."""

    grain: Grain | Literal["life"]
    span: Span = Span()


LIFE = Piece("life")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read for a span, or for all time, and where it may be that finer windows are gone.

    Before `split_ms` a window is read beside the finer ones that should add up to it; from there on
    the pieces are read alone.
    """

    span: Span | None
    by: Grain | None
    split_ms: int
    pieces: tuple[Piece, ...]


def sure_since(now_ms: int, log_ms: Iterable[int]) -> int:
    """From when on no window can be gone, of any grain and whatever any retention says.

    Retention goes by log time, so the shards' log times count if they are ahead of this clock. A
    window may be ahead of its log time by the earliness.
    """
    return max(0, max(now_ms, *log_ms, 0) - KEPT_MIN_MS + QUERY_MAX_MS + EARLINESS_MS)


def plan(span: Span | None, by: Grain | None, sure_ms: int) -> Plan:
    """Of all time the lifetime total is read, beside the windows of the grain asked for."""
    asked = span or Span()
    split_ms = asked.since_ms
    if split_ms < sure_ms:
        split_ms = min(_ceil(sure_ms, "1d"), asked.until_ms)
    pieces = [LIFE] if span is None else []
    if span is not None or by is not None:
        pieces += _old(Span(asked.since_ms, split_ms), by)
        pieces += _recent(Span(split_ms, asked.until_ms), by)
    # One at least, so that there is something to ask for: a time in which nothing can be.
    pieces = pieces or [Piece("1d", Span(asked.since_ms, asked.since_ms))]
    return Plan(span, by, split_ms, tuple(pieces))


def _old(span: Span, by: Grain | None) -> list[Piece]:
    """Days, and finer windows where they are asked for or a day or an hour is cut."""
    if span.since_ms >= span.until_ms:
        return []
    days = Span(window_of(span.since_ms, "1d"), _ceil(span.until_ms, "1d"))
    pieces = [Piece("1d", days)]
    for grain, finer in FINER.items():
        if by and GRAIN_MS[by] <= GRAIN_MS[finer]:
            pieces.append(Piece(finer, days))
        else:
            pieces += [Piece(finer, window) for window in _cut(span, grain)]
    return pieces


def _recent(span: Span, by: Grain | None) -> list[Piece]:
    """The coarsest windows that neither are cut nor hide what is asked for."""
    if span.since_ms >= span.until_ms:
        return []
    for grain in ("1d", *FINER.values()):
        hides = by is not None and GRAIN_MS[by] < GRAIN_MS[grain]
        if grain == "1m" or not (hides or _cut(span, grain)):
            return [Piece(grain, span)]
    raise AssertionError("minutes always do")


def _cut(span: Span, grain: Grain) -> list[Span]:
    """The windows that the span begins or ends inside of."""
    size_ms = GRAIN_MS[grain]
    bounds = {bound for bound in (span.since_ms, span.until_ms) if bound != FOREVER_MS}
    starts = {window_of(bound, grain) for bound in bounds if bound % size_ms}
    return [Span(start, start + size_ms) for start in sorted(starts)]


def window_of(at_ms: int, grain: Grain) -> int:
    """When the window that a moment is in begins."""
    return at_ms - at_ms % GRAIN_MS[grain]


def window_text(at_ms: int) -> str:
    """A window as people and programs read it; windows begin at whole seconds."""
    return rfc3339(at_ms).replace(".000Z", "Z")


def _ceil(at_ms: int, grain: Grain) -> int:
    return -(-at_ms // GRAIN_MS[grain]) * GRAIN_MS[grain]
