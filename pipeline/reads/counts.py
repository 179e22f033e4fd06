"""A counter's total and windows: the question, the answer, and how it comes about in each mode."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pipeline.caps import spill_counter
from pipeline.errors import OperatorError
from pipeline.reads import cell_sql, spans
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads
    from schemas.families import Families
    from schemas.rules import Grain

Mode = Literal["cached", "exact", "live"]

COMPLETE_WITHIN_MS = 30_000
"""A shard that was flushed longer ago may have counts that are not here: even an idle one is
flushed at every checkpoint."""

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
    """A counter's count in one window."""

    window: str
    count: int


@dataclass(frozen=True, slots=True)
class CountAnswer:
    """A counter's value and how it is known. `total` is never below zero; `net` may be.

    `as_of` is when the shard that was flushed longest ago was flushed, or up to which log time all
    are rolled up. `complete` is False when a shard has not been heard of for a while, so that
    counts may be missing. `spilled_to` is the counter that took what its family counted past its
    cap, in the time asked for.
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

    def document(self) -> dict[str, Any]:
        """As a JSON document; `capped` and `remarks` are in it only where there is need."""
        document = asdict(self)
        if document.pop("spilled_to") is not None:
            document["capped"] = True
        if not self.remarks:
            del document["remarks"]
        return document


def default_mode(families: Families, counter: str) -> Mode:
    """What the families' file says for the counter's family; `exact` where it says nothing."""
    family = families.for_counter(counter)
    return family.read_mode if "read_mode" in family.model_fields_set else "exact"


def count(
    reads: Reads, question: Question, mode: Mode, kept: spans.Kept, rollup_interval_ms: int
) -> CountAnswer:
    """The answer in a mode, or in `exact` where rolled-up windows cannot give it.

    Blocks; raises TryAgainError when ClickHouse is away, OperatorError for a mode there is not.
    """
    if mode == "live":
        raise OperatorError("live is not available yet in this version; ask with --mode exact")
    chosen = spans.pieces(question.span, question.by, kept)
    if mode == "cached" and any(piece.grain == "1m" for piece in chosen):
        mode = "exact"
    # Positions come first: whatever is read after them holds at least that much.
    as_of_ms, complete_within_ms = (
        (_rolled_up(reads), max(COMPLETE_WITHIN_MS, ROLLUPS_MISSED_MAX * rollup_interval_ms))
        if mode == "cached"
        else (_flushed(reads), COMPLETE_WITHIN_MS)
    )
    sums = _sums(reads, question, chosen, cached=mode == "cached")
    known_ms = [at_ms for at_ms in as_of_ms if at_ms is not None]
    oldest_ms = min(known_ms, default=None)
    staleness_ms = None if oldest_ms is None else max(0, reads.now_ms() - oldest_ms)
    return CountAnswer(
        counter=question.counter,
        total=max(sums.net, 0),
        net=sums.net,
        windows=[
            WindowCount(spans.window_text(at), count) for at, count in sorted(sums.windows.items())
        ],
        mode=mode,
        as_of=None if oldest_ms is None else rfc3339(oldest_ms),
        staleness_ms=staleness_ms,
        complete=(
            len(known_ms) == len(as_of_ms)
            and staleness_ms is not None
            and staleness_ms < complete_within_ms
        ),
        spilled_to=reads.spill_of(question.counter, sums.spilled),
        remarks=spans.remarks(question.span, question.by, chosen, kept),
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    net: int
    windows: dict[int, int]
    spilled: dict[str, int]


def _sums(reads: Reads, question: Question, chosen: list[spans.Piece], *, cached: bool) -> _Sums:
    """All of it in one query, so that total and windows agree."""
    counter = question.counter
    spills = [spill_counter(counter.partition(":")[0]), spill_counter("")]
    parameters: dict[str, Any] = {"counter": counter, "counters": [counter, *spills]}
    where = ""
    if question.region is not None:
        where = "WHERE region = {region:String} OR counter != {counter:String} "
        parameters["region"] = question.region
    source = cell_sql.rolled_up_cells(chosen) if cached else cell_sql.cells(chosen)
    rows = reads.rows(
        "SELECT counter, grain, toUnixTimestamp(window), sum(p), sum(n) "  # noqa: S608 - see cell_sql
        f"FROM ({source}) {where}GROUP BY counter, grain, window",
        parameters,
    )
    windows: Counter[int] = Counter()
    spilled: Counter[str] = Counter()
    net = 0
    for name, grain, window_s, p, n in rows:
        # Of all time the lifetime total is told; windows beside it may have gone.
        in_total = (grain == "life") == (question.span is None)
        if name != counter:
            spilled[name] += int(p) + int(n) if in_total else 0
            continue
        net += int(p) - int(n) if in_total else 0
        if question.by and (p or n) and _is_within(grain, question.by):
            windows[spans.window_of(int(window_s) * 1000, question.by)] += int(p) - int(n)
    return _Sums(net, dict(windows), dict(spilled))


def _is_within(grain: Grain | Literal["life"], by: Grain) -> bool:
    """Whether windows of a grain add up to those of another."""
    return grain != "life" and spans.GRAIN_MS[grain] <= spans.GRAIN_MS[by]


def _flushed(reads: Reads) -> list[int | None]:
    """When each shard was flushed last; None for one that is missing between others."""
    flushed = {shard.shard: shard.flushed_at_ms for shard in reads.positions()}
    return [flushed.get(shard) for shard in range(max(flushed, default=-1) + 1)]


def _rolled_up(reads: Reads) -> list[int | None]:
    """Up to which log time each shard is rolled up; None for one that never was."""
    shards = [shard.shard for shard in reads.positions()]
    rolled = reads.rolled_log_ms()
    return [rolled.get(shard) for shard in shards]
