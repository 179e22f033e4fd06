"""Why a counter has the value it has: which shard saw how much of it, where, and how late."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.reads import cell_sql, live, sketched, spans
from pipeline.reads.applied_rules import newest_rules
from pipeline.reads.sums import forgotten_ms, read_sums
from pipeline.reads.taking import Window, remarks, total
from pipeline.slots import spill_counter

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads
    from pipeline.reads.taking import Values

LATE_S = 600
"""From how long after its window, by log time, what came is called late."""


@dataclass(frozen=True, slots=True)
class Minutes:
    """What of it is in cells of minutes, which know slots and offsets. Coarser ones do not.

    Late is what came in a slot that began more than ten minutes after its window.
    """

    p: int
    n: int
    cells: int
    first_window: str
    last_window: str
    slots: int
    first_slot: str
    last_slot: str
    through: int
    late_p: int
    late_n: int


@dataclass(frozen=True, slots=True)
class ShardPart:
    """What one shard saw of it, as one replica counted it.

    `flushed_through` is how far the shard is, `minutes` None where they are gone, and `rolled_up`
    what is in days and lifetime totals; None when only a span was asked for.
    """

    shard: int
    replica: str
    p: int
    n: int
    net: int
    duplicates: int
    flushed_through: int | None
    minutes: Minutes | None
    rolled_up: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class DeadLettersOf:
    """Refused events that name the counter: how many, and why the last one was refused."""

    count: int
    last_reason: str | None


@dataclass(frozen=True, slots=True)
class AdjustmentsOf:
    """Corrections that are in the number: how many, and what they add up to."""

    count: int
    by: int


@dataclass(frozen=True, slots=True)
class SketchedPart:
    """What sketches know of it: how much more than its cells, and between which bounds.

    `families` are whose sketches these are, "" those of all that no rule names. `by_rule` is True
    where the rules say that the family has no cells, False where it was flooded past its cap.
    """

    value: int
    low: int
    high: int
    families: list[str]
    by_rule: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of it. `since` and `until` are None for all time.

    `p` and `n` are what was counted; adjustments are in `net` and `total` alone.
    """

    counter: str
    build: int
    since: str | None
    until: str | None
    total: int
    net: int
    p: int
    n: int
    duplicates: int
    late_p: int
    late_n: int
    shards: list[ShardPart]
    dead_letters: DeadLettersOf
    spilled_to: str | None
    adjustments: AdjustmentsOf
    remarks: list[str]
    sketched: SketchedPart | None = None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {**asdict(self), "capped": self.spilled_to is not None}


def explain(reads: Reads, counter: str, span: spans.Span | None) -> Explanation:
    """What is known of a counter, in a span or of all time.

    Blocks; raises TryAgainError when ClickHouse is away.
    """
    positions = reads.positions()
    sure_ms = spans.sure_since(reads.now_ms(), (position.log_ms for position in positions))
    plan = spans.plan(span, None, sure_ms)
    values, spilled, coarse, adjustments = _values(reads, counter, plan)
    minutes = _minutes(reads, counter, span)
    rolled = _rolled_up(reads, counter) if span is None else None
    flushed = {position.shard: position.flushed_through for position in positions}
    [(build,)] = reads.rows("SELECT build FROM tally.live_builds WHERE cluster = ''")
    shards = [
        ShardPart(
            shard=shard,
            replica=replica,
            p=p,
            n=n,
            net=p - n,
            duplicates=duplicates,
            flushed_through=flushed.get(shard),
            minutes=minutes.get((shard, replica)),
            rolled_up=None if rolled is None else rolled.get((shard, replica), {"p": 0, "n": 0}),
        )
        for (shard, replica), (p, n, duplicates) in sorted(values.items())
    ]
    estimate = _sketched(reads, counter, plan)
    added, taken = sum(part.p for part in shards), sum(part.n for part in shards)
    net = added - taken + adjustments.by + (estimate.value if estimate else 0)
    until_ms = None if span is None or span.until_ms == spans.FOREVER_MS else span.until_ms
    return Explanation(
        counter=counter,
        build=int(build),
        since=None if span is None else spans.window_text(span.since_ms),
        until=None if until_ms is None else spans.window_text(until_ms),
        total=max(0, net),
        net=net,
        p=added,
        n=taken,
        duplicates=sum(part.duplicates for part in shards),
        late_p=sum(part.minutes.late_p for part in shards if part.minutes),
        late_n=sum(part.minutes.late_n for part in shards if part.minutes),
        shards=shards,
        dead_letters=_dead_letters(reads, counter),
        spilled_to=None if estimate else reads.spill_of(counter, spilled),
        adjustments=adjustments,
        remarks=remarks(plan, coarse, forgotten_ms(reads, plan, [counter])),
        sketched=estimate,
    )


def _sketched(reads: Reads, counter: str, plan: spans.Plan) -> SketchedPart | None:
    if counter == spill_counter(counter.partition(":")[0]):
        return None
    for known in sketched.estimates(reads, [counter], plan).values():
        rules = newest_rules(reads)
        by_rule = rules is not None and rules.of(counter).sketched
        return SketchedPart(**asdict(known.total), families=sorted(known.families), by_rule=by_rule)
    return None


def _values(
    reads: Reads, counter: str, plan: spans.Plan
) -> tuple[dict[tuple[int, str], Values], dict[str, int], set[Window], AdjustmentsOf]:
    """Sums by shard and replica; what spilled, by counter; windows whose finer ones are gone.

    And the counter's adjustments, which are of no replica.
    """
    spills = {spill_counter(counter.partition(":")[0]), spill_counter("")} - {counter}
    values: dict[tuple[int, str], Values] = {}
    spilled: dict[str, int] = {}
    coarse: set[Window] = set()
    number = by = 0
    sums = read_sums(reads, plan, [counter, *spills], key="counter, shard, replica")
    for (name, shard, replica), found in sums.items():
        p, n, duplicates = found.life or total(found.taken.windows.values())
        if name != counter:
            spilled[name] = spilled.get(name, 0) + p + n
            continue
        coarse |= found.taken.coarse
        more, amount = found.adjusted.of(plan.span)
        number, by = number + more, by + amount
        if found.life or found.taken.windows:
            values[int(shard), replica] = (p, n, duplicates)
    return values, spilled, coarse, AdjustmentsOf(number, by)


def _minutes(reads: Reads, counter: str, span: spans.Span | None) -> dict[tuple[int, str], Minutes]:
    within = cell_sql.within(span or spans.Span())
    cells = (
        "SELECT shard, toString(replica) AS replica, window, slot, "  # noqa: S608 - see cell_sql
        "max(cells_1m.p)::Int128 AS p, max(cells_1m.n)::Int128 AS n, "
        "max(cells_1m.through) AS through FROM tally.cells_1m "
        f"WHERE {live.ALL} AND counter = {{counter:String}} AND {within} "
        "GROUP BY region, window, slot, replica, shard"
    )
    late = f"window + {LATE_S} < slot"
    columns = [
        *("shard", "replica", "sum(p)", "sum(n)", "count()"),
        *(_text("min(window)"), _text("max(window)")),
        *("uniqExact(slot)", _text("min(slot)"), _text("max(slot)"), "max(through)"),
        *(f"sumIf(p, {late})", f"sumIf(n, {late})"),
    ]
    rows = reads.rows(
        f"SELECT {', '.join(columns)} FROM ({cells}) GROUP BY shard, replica",  # noqa: S608 - see cell_sql
        {"counter": counter},
    )
    return {(int(shard), replica): Minutes(*found) for shard, replica, *found in rows}


def _text(moment: str) -> str:
    return f"formatDateTime({moment}, '%Y-%m-%dT%H:%i:%SZ')"


def _rolled_up(reads: Reads, counter: str) -> dict[tuple[int, str], dict[str, int]]:
    rows = reads.rows(
        "SELECT shard, replica, sum(p), sum(n) "  # noqa: S608 - see cell_sql
        f"FROM ({cell_sql.rolled_up_cells([spans.LIFE])}) GROUP BY shard, replica",
        {"counters": [counter]},
    )
    return {(int(shard), replica): {"p": int(p), "n": int(n)} for shard, replica, p, n in rows}


def _dead_letters(reads: Reads, counter: str) -> DeadLettersOf:
    """Letters whose sample has the counter as a JSON text, however its producer writes that."""
    texts = [json.dumps(counter, ensure_ascii=ascii_only) for ascii_only in (True, False)]
    [(count, reason)] = reads.rows(
        "SELECT uniqExact(shard, `offset`, `row`, log_time), argMax(reason, log_time) "  # noqa: S608 - a constant
        f"FROM tally.dead_letters WHERE {live.OWN} "
        "AND (position(sample, {ascii:String}) > 0 OR position(sample, {plain:String}) > 0)",
        {"ascii": texts[0], "plain": texts[1]},
    )
    return DeadLettersOf(int(count), str(reason) if count else None)
