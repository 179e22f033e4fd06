"""How many different members counters have had: the question, the answer, how it comes about."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.errors import NothingThereError
from pipeline.reads import spans, uniques_sql, uniting
from pipeline.reads.applied_rules import newest_rules
from pipeline.reads.as_of import as_of
from pipeline.reads.sums import Sums, read_sums
from pipeline.reads.taking import total
from pipeline.slots import spill_counter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.reads.reads import FlushedShard, Reads
    from pipeline.reads.taking import Window
    from pipeline.reads.uniting import Union
    from schemas.rules import Grain


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of counters, all of them united. No span is all time, no region all of them."""

    counters: tuple[str, ...]
    by: Grain | None = None
    span: spans.Span | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class WindowUniques:
    """The distinct members in one window."""

    window: str
    uniques: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class UniquesAnswer:
    """About how many distinct members, between bounds that hold with a confidence of 95 %.

    `begins` and `ends` are of the windows that were united, which may be more than was asked for;
    None if there are none. `as_of` and `complete` are those of counts. `windows` is None unless
    asked for. `spilled_to` is the counter that took members past its family's cap.
    """

    counters: list[str]
    uniques: int
    low: int
    high: int
    windows: list[WindowUniques] | None
    begins: str | None
    ends: str | None
    as_of: str | None
    staleness_ms: int | None
    complete: bool
    spilled_to: str | None = None
    remarks: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON; `windows`, `capped` and `remarks` are in it only where there is need."""
        names = {"begins": "from", "ends": "until"}
        document = {names.get(name, name): value for name, value in asdict(self).items()}
        if document.pop("spilled_to") is not None:
            document["capped"] = True
        if self.windows is None:
            del document["windows"]
        if not self.remarks:
            del document["remarks"]
        return document


def uniques(reads: Reads, question: Question) -> UniquesAnswer:
    """The members of all counters and windows asked for, each counted once.

    Blocks; raises TryAgainError when ClickHouse is away, NothingThereError where a counter's
    members are not counted by the rules.
    """
    # Positions come first: whatever is read after them holds at least that much.
    positions = reads.positions()
    counters = tuple(dict.fromkeys(question.counters))
    span = question.span or spans.Span()
    union = uniting.unite(_there(reads, question, span), span)
    unknown = [counter for counter in counters if not union.taken.get(counter)]
    _check_counted(reads, unknown)
    windows = None if question.by is None else _windows(reads, question, span, union)
    number = _united(reads, question, span, union)
    united = union.span
    known = as_of(positions, reads.now_ms(), reads.rules(), reads.partitions())
    return UniquesAnswer(
        counters=list(counters),
        uniques=number[0],
        low=number[1],
        high=number[2],
        windows=windows,
        begins=None if united is None else spans.window_text(united.since_ms),
        ends=None if united is None else spans.window_text(united.until_ms),
        as_of=known.text,
        staleness_ms=known.staleness_ms,
        complete=known.complete,
        spilled_to=_spilled_to(reads, question, positions),
        remarks=[*_unknown(unknown), *uniting.remarks(union, span, question.by)],
    )


def _there(reads: Reads, question: Question, span: spans.Span) -> dict[str, set[Window]]:
    parameters = uniques_sql.parameters(question.counters, question.region)
    query = uniques_sql.windows(uniting.around(span), question.region)
    there: dict[str, set[Window]] = {}
    for grain, counter, at_s in reads.rows(query, parameters):
        there.setdefault(counter, set()).add((grain, int(at_s) * 1000))
    return there


def _windows(
    reads: Reads, question: Question, span: spans.Span, union: Union
) -> list[WindowUniques]:
    rows = _rows(reads, question, span, union, question.by)
    return [
        WindowUniques(spans.window_text(int(at_s) * 1000), *map(int, number))
        for at_s, *number in rows
    ]


def _united(
    reads: Reads, question: Question, span: spans.Span, union: Union
) -> tuple[int, int, int]:
    for _, number, low, high in _rows(reads, question, span, union, None):
        return int(number), int(low), int(high)
    return 0, 0, 0


def _rows(
    reads: Reads, question: Question, span: spans.Span, union: Union, by: Grain | None
) -> Sequence[Sequence[Any]]:
    query, replaced = uniques_sql.united(span, by, question.region, union.replaced)
    parameters = uniques_sql.parameters(question.counters, question.region)
    return reads.rows(query, {**parameters, **replaced})


def _check_counted(reads: Reads, unknown: Sequence[str]) -> None:
    """Raise for a counter of which nothing is there and whose family counts no members."""
    rules = newest_rules(reads) if unknown else None
    for counter in unknown:
        if rules is not None and rules.of(counter).distinct_precision == 0:
            raise NothingThereError(
                f"{counter}: distinct members of its family are not counted; set distinct in "
                "tally.toml and run tally rules apply, then they are from there on"
            )


def _unknown(unknown: Sequence[str]) -> Iterator[str]:
    for counter in unknown:
        yield f"no members of {counter} are known in what was asked for"


def _spilled_to(reads: Reads, question: Question, positions: Sequence[FlushedShard]) -> str | None:
    """Where members of one of the counters went past the cap of its family, in the time asked."""
    families = {counter.partition(":")[0] for counter in question.counters}
    spills = {spill_counter(family) for family in (*families, "")} - {*question.counters}
    sure_ms = spans.sure_since(reads.now_ms(), (shard.log_ms for shard in positions))
    sums = read_sums(reads, spans.plan(question.span, None, sure_ms), sorted(spills))
    spilled = {str(name): _amount(found, question.span) for (name,), found in sums.items()}
    found = (reads.spill_of(counter, spilled) for counter in question.counters)
    return next((spill for spill in found if spill is not None), None)


def _amount(sums: Sums, span: spans.Span | None) -> int:
    p, n, _ = (sums.life or (0, 0, 0)) if span is None else total(sums.taken.windows.values())
    return p + n
