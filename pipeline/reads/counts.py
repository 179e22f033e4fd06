"""A counter's total and windows: the question, the answer, and how it comes about in each mode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pipeline.reads import sketched, spans
from pipeline.reads.as_of import COMPLETE_WITHIN_MS, as_of, expected_shards, oldest
from pipeline.reads.estimating import Bounds
from pipeline.reads.lifetimes import has_adjustments, read_border, read_lifetimes
from pipeline.reads.strict import NO_WINDOWS, read_strict
from pipeline.reads.sums import Sums, forgotten_ms, read_sums
from pipeline.reads.taking import remarks, total
from pipeline.slots import spill_counter
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.reads import FlushedShard, Reads
    from pipeline.reads.settled import Border, Settled
    from pipeline.reads.sketched import Estimated
    from pipeline.reads.taking import Values
    from pipeline.rules import CountingRules
    from schemas.families import Families
    from schemas.rules import Grain

Mode = Literal["cached", "exact", "live"]

ROLLUPS_MISSED_MAX = 3
"""After so many intervals without a rollup, what is rolled up is not complete."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked of counters. No span is all time, no region is all of them."""

    by: Grain | None = None
    span: spans.Span | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one counter, as a Scope."""

    counter: str
    by: Grain | None = None
    span: spans.Span | None = None
    region: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.by, self.span, self.region)


@dataclass(frozen=True, slots=True)
class Ground:
    """What is read first: whatever is read after it holds at least that much."""

    positions: Sequence[FlushedShard]
    border: Border | None
    rules: CountingRules | None = None
    has_adjustments: bool = True
    partitions: int = 0

    def is_strict(self, counter: str) -> bool:
        """Whether the counter's family is strict, by the rules applied last."""
        return self.rules is not None and self.rules.of(counter).strict is not None


def read_ground(reads: Reads, known: Ground | None = None) -> Ground:
    """How far shards are, what is rolled up for good, and the rules. Blocks; raises TryAgainError.

    The border of a ground that was `known` a moment ago is taken over, and the build with it: that
    is then as old as it is, while how far its shards are is read anew.
    """
    if known is not None and known.border is not None:
        positions = reads.positions(known.border.build)
        if positions == known.positions:
            # Adjustments are written before the positions that hold them.
            return known
        if len(positions) == len(known.positions):
            is_adjusted = has_adjustments(reads, known.border)
            return replace(known, positions=positions, has_adjustments=is_adjusted)
    positions = reads.positions()
    border = read_border(reads, len(positions))
    if border is not None and any(shard.build != border.build for shard in positions):
        # Another build became the live one in between: both are to be of the same.
        before, positions = len(positions), reads.positions(border.build)
        border = border if len(positions) == before else None
    is_adjusted = border is None or has_adjustments(reads, border)
    return Ground(positions, border, reads.rules(), is_adjusted, reads.partitions())


@dataclass(frozen=True, slots=True)
class WindowCount:
    """A counter's count in one window, and its bounds where it is estimated."""

    window: str
    count: int
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class CountAnswer:
    """A counter's value and how it is known. `total` is never below zero; `net` may be.

    `as_of` is when the shard that was flushed longest ago was flushed, or up to which log time all
    are rolled up. `complete` is False when a shard has not been heard of for a while, so that
    counts may be missing. `spilled_to` is the counter that took what its family counted past its
    cap, in the time asked for. Where the family has sketches, which know what that was, `low` and
    `high` are the bounds of the total instead. `latest` is by shard the last offset of what is in
    it; None where that was not read.
    """

    counter: str
    total: int
    net: int
    windows: list[WindowCount]
    mode: Mode
    as_of: str | None
    staleness_ms: int | None
    complete: bool
    spilled_to: str | None = None
    remarks: list[str] = field(default_factory=list)
    low: int | None = None
    high: int | None = None
    latest: Mapping[int, int] | None = None
    is_strict: bool = False

    def document(self) -> dict[str, Any]:
        """As a JSON document; `capped`, `remarks`, bounds are in it only where there is need."""
        document: dict[str, Any] = {
            "counter": self.counter,
            "total": self.total,
            "net": self.net,
            "windows": [
                {"window": row.window, "count": row.count, **_bounds(row.low, row.high)}
                for row in self.windows
            ],
            "mode": self.mode,
            "as_of": self.as_of,
            "staleness_ms": self.staleness_ms,
            "complete": self.complete,
            **_bounds(self.low, self.high),
        }
        if self.remarks:
            document["remarks"] = self.remarks
        if self.spilled_to is not None:
            document["capped"] = True
        return document


def _bounds(low: int | None, high: int | None) -> dict[str, int]:
    return {} if low is None or high is None else {"low": low, "high": high, "error": high - low}


def default_mode(families: Families, counter: str) -> Mode:
    """What the families' file says for the counter's family; `exact` where it says nothing."""
    family = families.for_counter(counter)
    return family.read_mode if "read_mode" in family.model_fields_set else "exact"


def count(reads: Reads, question: Question, mode: Mode, rollup_interval_ms: int) -> CountAnswer:
    """The answer of one counter, as `count_many`."""
    counter = question.counter
    return count_many(reads, [counter], question.scope, mode, rollup_interval_ms)[counter]


def count_many(
    reads: Reads,
    counters: Sequence[str],
    scope: Scope,
    mode: Mode,
    rollup_interval_ms: int,
    *,
    ground: Ground | None = None,
    settled: Settled | None = None,
) -> dict[str, CountAnswer]:
    """The answers in a mode, or in `exact` where rolled-up windows cannot give them.

    `live` is exact: whoever wants it has asked the owners to flush before. `ground` may have been
    read before, and what is `settled`, too. A few queries answer all counters. Blocks; raises
    TryAgainError when ClickHouse is away.
    """
    ground = ground or read_ground(reads)
    strict = _strict_answers(reads, [one for one in counters if ground.is_strict(one)], scope)
    counters = [counter for counter in counters if counter not in strict]
    if not counters:
        return strict
    positions = ground.positions
    sure_ms = spans.sure_since(reads.now_ms(), (shard.log_ms for shard in positions))
    plan = spans.plan(scope.span, scope.by, sure_ms)
    if mode == "cached" and any(piece.grain == "1m" for piece in plan.pieces):
        mode = "exact"
    cached = mode == "cached"
    rolled_up = _rolled_up(reads, ground) if cached else None
    rests = {spill_counter(_family(counter)) for counter in counters} | {spill_counter("")}
    spills = rests - {*counters}
    names = [*counters, *sorted(spills)]
    is_of_all_time = plan.pieces == (spans.LIFE,) and not cached
    if is_of_all_time and ground.border is not None:
        sums = read_lifetimes(
            reads,
            ground.border,
            names,
            positions=positions,
            region=scope.region,
            everywhere=spills,
            adjusted=ground.has_adjustments,
            settled=settled,
        )
    else:
        sums = read_sums(
            reads, plan, names, cached=cached, region=scope.region, everywhere=sorted(spills)
        )
    spilled = {name: _total(found, scope) for (name,), found in sums.items() if name in spills}
    amounts = {name: p + n for name, (p, n, _) in spilled.items()}
    # What is in sketches is in the cells of the rest, too, so that nothing there says enough.
    is_all_exact = is_of_all_time and spills == rests and not any(amounts.values())
    estimated = {} if is_all_exact else _estimated(reads, counters, scope, plan, cached=cached)
    known = (
        as_of(positions, reads.now_ms(), ground.rules, ground.partitions)
        if rolled_up is None
        else oldest(rolled_up, reads.now_ms(), _complete_within_ms(rollup_interval_ms))
    )
    answers = {}
    for counter in counters:
        own = sums.get((counter,), Sums())
        p, n, _ = _total(own, scope)
        net = p - n + own.adjusted.of(scope.span)[1]
        answer = CountAnswer(
            counter=counter,
            total=max(net, 0),
            net=net,
            windows=_windows(own, scope),
            mode=mode,
            as_of=known.text,
            staleness_ms=known.staleness_ms,
            complete=known.complete,
            spilled_to=reads.spill_of(counter, amounts),
            remarks=[
                *_remarks(reads, plan, counter, own, estimated.get(counter)),
                *own.adjusted.remarks(scope.by, scope.span),
            ],
            latest=None if counter in estimated else own.latest,
        )
        estimate = estimated.get(counter)
        answers[counter] = answer if estimate is None else _with_estimate(answer, estimate)
    return {**strict, **answers}


def _strict_answers(reads: Reads, counters: Sequence[str], scope: Scope) -> dict[str, CountAnswer]:
    """Of strict counters, whatever the mode: their deciders flush by themselves."""
    if not counters:
        return {}
    return {
        counter: CountAnswer(
            counter=counter,
            total=max(found.value, 0),
            net=found.value,
            windows=[],
            mode="exact",
            as_of=found.as_of.text,
            staleness_ms=found.as_of.staleness_ms,
            complete=found.as_of.complete,
            remarks=[] if scope == Scope() else [NO_WINDOWS],
            latest={},
            is_strict=True,
        )
        for counter, found in read_strict(reads, counters).items()
    }


def _family(counter: str) -> str:
    return counter.partition(":")[0]


def _estimated(
    reads: Reads, counters: Sequence[str], scope: Scope, plan: spans.Plan, *, cached: bool
) -> dict[str, Estimated]:
    """What sketches know of them; the counter that stands for the rest has cells alone."""
    families: dict[str, list[str]] = {}
    for counter in counters:
        if counter != spill_counter(_family(counter)):
            families.setdefault(_family(counter), []).append(counter)
    found: dict[str, Estimated] = {}
    if families and sketched.are_there(reads, families, plan.span):
        for members in families.values():
            found |= sketched.estimates(reads, members, plan, cached=cached, region=scope.region)
    return found


def _with_estimate(answer: CountAnswer, estimated: Estimated) -> CountAnswer:
    """Cells and sketches together: nothing was counted in both."""
    net, more = answer.net, estimated.total
    cells = {row.window: row.count for row in answer.windows}
    windows = {spans.window_text(at_ms): bounds for at_ms, bounds in estimated.windows.items()}
    rows = []
    for window in sorted({*cells, *windows}):
        known = windows.get(window, Bounds()) + Bounds(*[cells.get(window, 0)] * 3)
        rows.append(WindowCount(window, known.value, known.low, known.high))
    return replace(
        answer,
        net=net + more.value,
        total=max(net + more.value, 0),
        low=max(net + more.low, 0),
        high=max(net + more.high, 0),
        windows=[row for row in rows if row.high or row.low or row.count],
        spilled_to=None,
    )


def _remarks(
    reads: Reads, plan: spans.Plan, counter: str, own: Sums, estimated: Estimated | None
) -> list[str]:
    """About windows that are gone, of cells and of sketches, which go together with the rest."""
    counters = [counter, *(sketched.rest_of(estimated) if estimated else ())]
    coarse = own.taken.coarse | (estimated.coarse if estimated else set())
    return remarks(plan, coarse, forgotten_ms(reads, plan, counters))


def _total(sums: Sums, scope: Scope) -> Values:
    """Of all time the lifetime total is told; windows beside it may have gone."""
    if scope.span is None:
        return sums.life or (0, 0, 0)
    return total(sums.taken.windows.values())


def _windows(sums: Sums, scope: Scope) -> list[WindowCount]:
    """What was taken, in windows of the grain asked for; coarser ones cannot be told apart."""
    by = scope.by
    if by is None:
        return []
    windows = sums.adjusted.windows(by, scope.span, sums.taken.coarse)
    for (grain, at_ms), (p, n, _) in sums.taken.windows.items():
        if (p or n) and GRAIN_MS[grain] <= GRAIN_MS[by]:
            windows[spans.window_of(at_ms, by)] += p - n
    return [WindowCount(spans.window_text(at_ms), net) for at_ms, net in sorted(windows.items())]


def _rolled_up(reads: Reads, ground: Ground) -> list[int | None]:
    """Up to which log time each shard is rolled up; None for one that never was."""
    rolled = reads.rolled_log_ms()
    shards = expected_shards(ground.positions, ground.rules, ground.partitions)
    return [rolled.get(shard) for shard in shards]


def _complete_within_ms(rollup_interval_ms: int) -> int:
    """How old what is rolled up may be, with nothing missing from it."""
    return max(COMPLETE_WITHIN_MS, ROLLUPS_MISSED_MAX * rollup_interval_ms)
