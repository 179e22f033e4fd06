"""A counter's total and windows: the question, the answer, and how it comes about in each mode."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pipeline.caps import spill_counter
from pipeline.errors import OperatorError
from pipeline.reads import sketched, spans
from pipeline.reads.as_of import COMPLETE_WITHIN_MS, as_of, oldest
from pipeline.reads.estimating import Bounds
from pipeline.reads.sums import Sums, forgotten_ms, read_sums
from pipeline.reads.taking import remarks, total
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import FlushedShard, Reads
    from pipeline.reads.sketched import Estimated
    from pipeline.reads.taking import Values
    from schemas.families import Families
    from schemas.rules import Grain

Mode = Literal["cached", "exact", "live"]

ROLLUPS_MISSED_MAX = 3
"""After so many intervals without a rollup, what is rolled up is not complete."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a counter. No span is all time, no region is all of them."""

    counter: str
    by: Grain | None = None
    span: spans.Span | None = None
    region: str | None = None


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
    `high` are the bounds of the total instead.
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

    def document(self) -> dict[str, Any]:
        """As a JSON document; `capped`, `remarks`, bounds are in it only where there is need."""
        document = asdict(self)
        if document.pop("spilled_to") is not None:
            document["capped"] = True
        if not self.remarks:
            del document["remarks"]
        for known in (document, *document["windows"]):
            if known["low"] is None or known["high"] is None:
                del known["low"], known["high"]
            else:
                known["error"] = known["high"] - known["low"]
        return document


def default_mode(families: Families, counter: str) -> Mode:
    """What the families' file says for the counter's family; `exact` where it says nothing."""
    family = families.for_counter(counter)
    return family.read_mode if "read_mode" in family.model_fields_set else "exact"


def count(reads: Reads, question: Question, mode: Mode, rollup_interval_ms: int) -> CountAnswer:
    """The answer in a mode, or in `exact` where rolled-up windows cannot give it.

    Blocks; raises TryAgainError when ClickHouse is away, OperatorError for a mode there is not.
    """
    if mode == "live":
        raise OperatorError("live is not available yet in this version; ask with --mode exact")
    # Positions come first: whatever is read after them holds at least that much.
    positions = reads.positions()
    sure_ms = spans.sure_since(reads.now_ms(), (shard.log_ms for shard in positions))
    plan = spans.plan(question.span, question.by, sure_ms)
    if mode == "cached" and any(piece.grain == "1m" for piece in plan.pieces):
        mode = "exact"
    rolled_up = _rolled_up(reads, positions) if mode == "cached" else None
    counter = question.counter
    spills = {spill_counter(counter.partition(":")[0]), spill_counter("")} - {counter}
    sums = read_sums(
        reads, plan, [counter, *spills], cached=mode == "cached", region=question.region
    )
    own = sums.get((counter,), Sums())
    estimated = _estimated(reads, question, plan, cached=mode == "cached")
    p, n, _ = _total(own, question)
    net = p - n + own.adjusted.of(question.span)[1]
    spilled = {name: _total(found, question) for (name,), found in sums.items() if name in spills}
    known = (
        as_of(positions, reads.now_ms())
        if rolled_up is None
        else oldest(rolled_up, reads.now_ms(), _complete_within_ms(rollup_interval_ms))
    )
    answer = CountAnswer(
        counter=counter,
        total=max(net, 0),
        net=net,
        windows=_windows(own, question),
        mode=mode,
        as_of=known.text,
        staleness_ms=known.staleness_ms,
        complete=known.complete,
        spilled_to=reads.spill_of(counter, {name: v[0] + v[1] for name, v in spilled.items()}),
        remarks=[
            *_remarks(reads, plan, counter, own, estimated),
            *own.adjusted.remarks(question.by, question.span),
        ],
    )
    return answer if estimated is None else _with_estimate(answer, estimated)


def _estimated(
    reads: Reads, question: Question, plan: spans.Plan, *, cached: bool
) -> Estimated | None:
    """What sketches know of it; the counter that stands for the rest has cells alone."""
    counter = question.counter
    if counter == spill_counter(counter.partition(":")[0]):
        return None
    found = sketched.estimates(reads, [counter], plan, cached=cached, region=question.region)
    return found.get(counter)


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
    return remarks(plan, coarse, max(forgotten_ms(reads, plan, name) for name in counters))


def _total(sums: Sums, question: Question) -> Values:
    """Of all time the lifetime total is told; windows beside it may have gone."""
    if question.span is None:
        return sums.life or (0, 0, 0)
    return total(sums.taken.windows.values())


def _windows(sums: Sums, question: Question) -> list[WindowCount]:
    """What was taken, in windows of the grain asked for; coarser ones cannot be told apart."""
    by = question.by
    if by is None:
        return []
    windows = sums.adjusted.windows(by, question.span, sums.taken.coarse)
    for (grain, at_ms), (p, n, _) in sums.taken.windows.items():
        if (p or n) and GRAIN_MS[grain] <= GRAIN_MS[by]:
            windows[spans.window_of(at_ms, by)] += p - n
    return [WindowCount(spans.window_text(at_ms), net) for at_ms, net in sorted(windows.items())]


def _rolled_up(reads: Reads, positions: Sequence[FlushedShard]) -> list[int | None]:
    """Up to which log time each shard is rolled up; None for one that never was."""
    rolled = reads.rolled_log_ms()
    return [rolled.get(shard.shard) for shard in positions]


def _complete_within_ms(rollup_interval_ms: int) -> int:
    """How old what is rolled up may be, with nothing missing from it."""
    return max(COMPLETE_WITHIN_MS, ROLLUPS_MISSED_MAX * rollup_interval_ms)
