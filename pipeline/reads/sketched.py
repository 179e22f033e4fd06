"""Counts of counters that have no cells of their own, estimated from their family's sketches.

A family has sketches where its kind is `sketched`, or where it was flooded past its cap. Families
that no rule names share theirs. docs/sketches/sketched-families.md says what the bounds promise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.placing import slot_of
from pipeline.reads import estimating, frequency_sql, spans
from pipeline.reads.applied_rules import rules_history
from pipeline.reads.estimating import Amounts, Bounds
from pipeline.reads.spans import Piece
from pipeline.reads.sums import ATTEMPTS_MAX
from pipeline.reads.taking import Taken, Window, take
from pipeline.rules import EARLINESS_MS
from pipeline.slots import spill_counter
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.reads.reads import Reads
    from pipeline.reads.spans import Plan

_LIFE: tuple[str, int] = ("life", 0)


@dataclass(frozen=True, slots=True)
class Sketch:
    """Sketches that can be added up: of one family, or of all that no rule names, and one width."""

    family: str
    width: int


@dataclass(slots=True)
class Estimated:
    """A counter by its sketches, all in one and by windows of the plan's grain.

    `coarse` has windows whose finer ones are gone, `families` whose sketches it is from.
    """

    total: Bounds = field(default_factory=Bounds)
    windows: dict[int, Bounds] = field(default_factory=dict)
    coarse: set[Window] = field(default_factory=set)
    families: set[str] = field(default_factory=set)


def estimates(
    reads: Reads,
    counters: Sequence[str],
    plan: Plan,
    *,
    cached: bool = False,
    region: str | None = None,
) -> dict[str, Estimated]:
    """Of each counter, all of one family; none where there are no sketches in that time.

    Blocks; raises TryAgainError.
    """
    family = counters[0].partition(":")[0]
    found: dict[str, Estimated] = {}
    for sketch in sketches(reads, family, plan.span):
        read = _read(reads, sketch, counters, plan, cached=cached, region=region)
        if not read.totals:
            continue
        known = [found.setdefault(counter, Estimated()) for counter in counters]
        for one, more in zip(known, read.estimates(read.all_windows()), strict=True):
            one.families.add(sketch.family)
            one.coarse |= read.taken.coarse
            one.total += more
        for at_ms, windows in read.by_window().items():
            for one, more in zip(known, read.estimates(windows), strict=True):
                one.windows[at_ms] = one.windows.get(at_ms, Bounds()) + more
    return found


def are_there(reads: Reads, families: Collection[str], span: spans.Span | None) -> bool:
    """Whether any of the families may have sketches in a time: one query. Blocks; raises
    TryAgainError."""
    return bool(_widths(reads, families, span or spans.Span()))


def sketches(reads: Reads, family: str, span: spans.Span | None) -> list[Sketch]:
    """Which sketches a family's counters may be in, in a time. Blocks; raises TryAgainError.

    One look at a table that has a row per family and width, which is empty where all is exact.
    """
    asked = span or spans.Span()
    found = _widths(reads, [family], asked)
    if family and any(name == "" for name, _ in found) and _was_named(reads, family, asked):
        found = [one for one in found if one[0] == family]
    return [Sketch(*one) for one in found]


def _widths(reads: Reads, families: Collection[str], asked: spans.Span) -> list[tuple[str, int]]:
    # What came late is in the first minute of its day.
    since_s = spans.window_of(asked.since_ms, "1d") // 1000
    rows = reads.rows(
        frequency_sql.WIDTHS,
        {"families": list(families), "since_s": since_s, "until_s": -(-asked.until_ms // 1000)},
    )
    return sorted((str(name), int(width)) for name, width in rows)


def open_since_s(reads: Reads) -> int:
    """The first slot that may not be rolled up for good; 0 if a shard never was. Blocks.

    And 0 where other clusters' sketches are here: these roll up theirs when they like.
    """
    [(clusters,)] = reads.rows("SELECT count() FROM tally.live_builds")
    if int(clusters) > 1:
        return 0
    rolled = reads.rolled_log_ms()
    least_ms = min((rolled.get(shard.shard, 0) for shard in reads.positions()), default=0)
    return slot_of(least_ms) // 1000


def in_hours(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The same windows, but whole hours in one: sketches of minutes are long to read."""
    return tuple(part for piece in pieces for part in _in_hours(piece))


def _in_hours(piece: Piece) -> Iterator[Piece]:
    since_ms, until_ms = piece.span.since_ms, piece.span.until_ms
    hour_ms = GRAIN_MS["1h"]
    first_ms = -(-since_ms // hour_ms) * hour_ms
    last_ms = until_ms if until_ms == spans.FOREVER_MS else spans.window_of(until_ms, "1h")
    if piece.grain != "1m" or first_ms >= last_ms:
        yield piece
        return
    if since_ms < first_ms:
        yield Piece("1m", spans.Span(since_ms, first_ms))
    yield Piece("1h", spans.Span(first_ms, last_ms))
    if last_ms < until_ms:
        yield Piece("1m", spans.Span(last_ms, until_ms))


def rest_of(estimated: Estimated) -> list[str]:
    """The counters in whose cells the sums of these sketches are, too."""
    return sorted(spill_counter(family) for family in estimated.families)


def _was_named(reads: Reads, family: str, span: spans.Span) -> bool:
    """Whether all rules that held in that time name the family: then it has its own sketches."""
    named = []
    for applied_ms, rules in rules_history(reads):
        named.append(rules is not None and family in rules.families)
        if applied_ms <= span.since_ms - EARLINESS_MS:
            break
    return bool(named) and all(named)


@dataclass(slots=True)
class _Read:
    """What was read of a sketch: sums of a whole row, and of some buckets, by window."""

    sketch: Sketch
    plan: Plan
    places: Any
    totals: Mapping[tuple[str, int], Amounts]
    buckets: Mapping[tuple[str, int], Mapping[int, Amounts]]
    taken: Taken

    def all_windows(self) -> list[tuple[str, int]]:
        """Those that add up to the time asked for."""
        return [_LIFE] if self.plan.span is None else list(self.taken.windows)

    def by_window(self) -> dict[int, list[tuple[str, int]]]:
        """The same by windows of the grain asked for; coarser ones cannot be told apart."""
        by, found = self.plan.by, dict[int, list[tuple[str, int]]]()
        for grain, at_ms in self.taken.windows if by else ():
            if by and GRAIN_MS[grain] <= GRAIN_MS[by]:
                found.setdefault(spans.window_of(at_ms, by), []).append((grain, at_ms))
        return found

    def estimates(self, windows: Iterable[tuple[str, int]]) -> list[Bounds]:
        """Of each counter, over some windows."""
        some = list(windows)
        sums = estimating.add_up(self.buckets.get(window, {}) for window in some)
        totals = [self.totals.get(window, (0, 0)) for window in some]
        total = sum(p for p, _ in totals), sum(n for _, n in totals)
        return estimating.estimate(self.sketch.width, self.places, sums, total)


def _read(
    reads: Reads,
    sketch: Sketch,
    counters: Sequence[str],
    plan: Plan,
    *,
    cached: bool,
    region: str | None,
) -> _Read:
    from sketches.frequency import buckets_of  # noqa: PLC0415 - brings numpy and pyarrow

    places = buckets_of(list(counters), sketch.width)
    pieces = plan.pieces
    if plan.by != "1m":
        recent = [piece for piece in pieces if piece.span.since_ms >= plan.split_ms]
        older = [piece for piece in pieces if piece not in recent]
        pieces = (*older, *in_hours(recent))
    query = frequency_sql.sums(pieces, cached=cached, region=region)
    parameters: dict[str, Any] = {
        "family": sketch.family,
        "width": sketch.width,
        "buckets": sorted(set(places.ravel().tolist())),
        "open_s": open_since_s(reads),
    }
    if region is not None:
        parameters["region"] = region
    for _ in range(ATTEMPTS_MAX):
        totals, buckets = _sorted_out(reads.rows(query, parameters))
        windows = {key: (*value, 0) for key, value in totals.items() if key != _LIFE}
        taken = take(plan, windows)  # type: ignore[arg-type]  # a grain is a text from ClickHouse
        if not taken.coarse:
            break
    return _Read(sketch, plan, places, totals, buckets, taken)


def _sorted_out(
    rows: Sequence[Sequence[Any]],
) -> tuple[dict[tuple[str, int], Amounts], dict[tuple[str, int], dict[int, Amounts]]]:
    totals: dict[tuple[str, int], Amounts] = {}
    buckets: dict[tuple[str, int], dict[int, Amounts]] = {}
    for grain, at_s, place, p, n in rows:
        window, amounts = (str(grain), int(at_s) * 1000), (int(p), int(n))
        if place == frequency_sql.ALL:
            totals[window] = amounts
        else:
            buckets.setdefault(window, {})[int(place)] = amounts
    return totals, buckets
