# ruff: noqa: S608 - what is put into statements are constants and whole numbers, see exact_ranking.
"""Which windows of a family to sum for a time asked for: those that are there, none of it twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import UncountedFamilyError
from pipeline.reads import heavy_sql, live, spans
from pipeline.reads.exact_ranking import cells
from pipeline.reads.sums import ATTEMPTS_MAX
from pipeline.reads.taking import Taken, Window, remarks, take
from pipeline.rules import EARLINESS_MS
from schemas.rules import GRAIN_MS, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.reads.reads import FlushedShard, Reads
    from schemas.rules import Grain

LISTED_MAX = 10


@dataclass(frozen=True, slots=True)
class Period:
    """The time asked for: the last `last_ms`, or else the window of a grain that `at_ms` is in.

    A grain without a moment is the newest window of the family.
    """

    last_ms: int = 3_600_000
    grain: Grain | None = None
    at_ms: int | None = None

    def span(self, now_ms: int, newest_ms: int) -> spans.Span:
        """From when to when. Sliding, it is open: events may be a little ahead."""
        if self.grain is None:
            return spans.Span.of(now_ms - self.last_ms, None) or spans.Span()
        # The newest minute may be ahead of the clock, and so in a window that has hardly begun.
        at_ms = min(newest_ms, now_ms) if self.at_ms is None else self.at_ms
        since_ms = spans.window_of(at_ms, self.grain)
        return spans.Span.of(since_ms, since_ms + GRAIN_MS[self.grain]) or spans.Span()

    def text(self, span: spans.Span) -> str:
        """When the window begins, or how long a time slides."""
        if self.grain is None:
            return f"last {format_duration(self.last_ms)}"
        return spans.window_text(span.since_ms)


@dataclass(frozen=True, slots=True)
class Windows:
    """What to sum, and what a reader of the sums should know."""

    pieces: tuple[spans.Piece, ...]
    remarks: list[str]


def newest_ms(reads: Reads, family: str) -> tuple[int, str]:
    """The latest minute in which anything of the family was counted, and whose cells say so.

    These are its own, or those of all families that no rule names, "", where it has none.
    Raises UncountedFamilyError for a family nobody counted, TryAgainError. Blocks.
    """
    [(at_s,)] = reads.rows(
        "SELECT toUnixTimestamp(max(newest_windows.window)) FROM tally.newest_windows "
        f"WHERE {live.ALL} AND family = {{family:String}}",
        {"family": family},
    )
    if at_s:
        return int(at_s) * 1000, family
    [(at_s,)] = reads.rows(heavy_sql.NAMED, {"start": f"{family}:"})
    if at_s:
        return int(at_s) * 1000, ""
    rows = reads.rows(
        "SELECT DISTINCT toString(family) AS name FROM tally.newest_windows "
        f"WHERE {live.ALL} AND name != '' ORDER BY name LIMIT {LISTED_MAX + 1}"
    )
    names = [name for (name,) in rows]
    more = ", ..." if len(names) > LISTED_MAX else ""
    known = f"there are {', '.join(names[:LISTED_MAX])}{more}" if names else "nothing was, so far"
    raise UncountedFamilyError(family, known)


def windows(
    reads: Reads, family: str, span: spans.Span, positions: Iterable[FlushedShard]
) -> Windows:
    """The windows that add up to a span. Blocks; raises TryAgainError.

    What no retention can have dropped is taken as it is. Before, a day is looked at beside its
    hours, and a cut hour beside its minutes, all counters of the family together.
    """
    sure_ms = spans.sure_since(reads.now_ms(), (shard.log_ms for shard in positions))
    plan = spans.plan(span, None, sure_ms)
    if plan.split_ms == span.since_ms:
        return Windows(plan.pieces, [])
    for _ in range(ATTEMPTS_MAX):
        taken = _taken(reads, family, plan)
        if not taken.coarse:
            break
    old = [window for window in taken.windows if window[1] < plan.split_ms]
    recent = [piece for piece in plan.pieces if piece.span.since_ms >= plan.split_ms]
    # One piece at least, so that there is something to ask for.
    pieces = (*_runs(old), *recent) or (
        spans.Piece("1d", spans.Span(span.since_ms, span.since_ms)),
    )
    gone_ms = _forgotten_ms(reads, family, span)
    return Windows(pieces, remarks(plan, taken.coarse, gone_ms))


def _taken(reads: Reads, family: str, plan: spans.Plan) -> Taken:
    source = cells(plan.pieces, "window, p, n, duplicates", "")
    rows = reads.rows(
        "SELECT grain, toUnixTimestamp(window) AS at, sum(p), sum(n), sum(duplicates) "
        f"FROM ({source}) GROUP BY grain, at",
        {"family": family},
    )
    found: dict[Window, tuple[int, int, int]] = {
        (grain, int(at_s) * 1000): (int(p), int(n), int(duplicates))
        for grain, at_s, p, n, duplicates in rows
    }
    return take(plan, found)


def _runs(taken: Sequence[Window]) -> Iterator[spans.Piece]:
    """Windows that follow on each other as one piece."""
    run: spans.Piece | None = None
    for grain, at_ms in sorted(taken):
        until_ms = at_ms + GRAIN_MS[grain]
        if run is not None and (run.grain, run.span.until_ms) == (grain, at_ms):
            run = spans.Piece(grain, spans.Span(run.span.since_ms, until_ms))
            continue
        if run is not None:
            yield run
        run = spans.Piece(grain, spans.Span(at_ms, until_ms))
    if run is not None:
        yield run


def _forgotten_ms(reads: Reads, family: str, span: spans.Span) -> int:
    """Before when days of the family are gone, all or some; 0 if none that the span has."""
    where = f"{live.ALL} AND family = {{family:String}}"
    since_s = max(0, span.since_ms - EARLINESS_MS) // 1000
    folded = (
        f"SELECT slot_month FROM tally.cells_life WHERE {where} "
        f"AND slot_month >= toStartOfMonth(toDateTime({since_s}, 'UTC'))"
    )
    if not reads.rows(f"{folded} LIMIT 1", {"family": family}):
        return 0
    [(end_s,)] = reads.rows(
        "SELECT toUnixTimestamp(toDateTime(max(month) + INTERVAL 1 MONTH, 'UTC')) * (count() > 0) "
        "FROM (SELECT month FROM ("
        "SELECT slot_month AS month, p AS life_p, n AS life_n, 0::Int128 AS day_p, "
        f"0::Int128 AS day_n FROM tally.merged_life WHERE {where} AND slot_month IN ({folded}) "
        "UNION ALL SELECT toStartOfMonth(slot_day), 0::Int128, 0::Int128, p, n "
        f"FROM tally.merged_1d WHERE {where} AND toStartOfMonth(slot_day) IN ({folded})"
        ") GROUP BY month HAVING sum(life_p) > sum(day_p) OR sum(life_n) > sum(day_n))",
        {"family": family},
    )
    # A window may be ahead of its log time by the earliness.
    return int(end_s) * 1000 + EARLINESS_MS if end_s else 0
