# ruff: noqa: S608 - what is put into statements are constants and whole numbers, see cell_sql.
"""The greatest counters of a family, and a counter's place among them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.errors import BadInputError
from pipeline.reads import cell_sql, spans
from pipeline.reads.as_of import AsOf, as_of
from pipeline.reads.family_windows import Period, newest_ms, windows
from pipeline.reads.ranking import RankedCounter, Row, Scope, ranked
from pipeline.reads.sketched import sketches
from pipeline.reads.sketched_ranking import SketchedSource
from pipeline.slots import spill_counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.ranking import Place, Source
    from pipeline.reads.reads import FlushedShard, Reads
    from pipeline.reads.sketched import Sketch

ALL_REGIONS = "*"


@dataclass(frozen=True, slots=True)
class Ranking:
    """What an answer says of the ranking it is from.

    `window` is when the window begins, or `last 1h` for a sliding time; `until` is None where that
    is open. `spilled_to` is the counter that took what the family counted past its cap.
    """

    family: str
    region: str
    window: str
    since: str
    until: str | None
    known: AsOf
    spilled_to: str | None
    remarks: list[str]

    def document(self) -> dict[str, Any]:
        """As a JSON document; `capped` and `remarks` are in it only where there is need."""
        document = asdict(self)
        del document["known"], document["spilled_to"], document["remarks"]
        document |= {
            "as_of": self.known.text,
            "staleness_ms": self.known.staleness_ms,
            "complete": self.known.complete,
        }
        if self.spilled_to is not None:
            document["capped"] = True
        if self.remarks:
            document["remarks"] = self.remarks
        return document


@dataclass(frozen=True, slots=True)
class TopAnswer:
    """The greatest counters, and of which ranking they are."""

    ranking: Ranking
    top: list[RankedCounter]

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {**self.ranking.document(), "top": [asdict(each) for each in self.top]}


@dataclass(frozen=True, slots=True)
class RankAnswer:
    """A counter's place. `above` and `below` are its neighbours, None at the ends."""

    ranking: Ranking
    counter: str
    rank: int | None
    of: int
    count: int
    error: int
    above: RankedCounter | None
    below: RankedCounter | None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        own = asdict(self)
        del own["ranking"]
        return {**own, **self.ranking.document()}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question of a ranking with what hardly changes: windows, sketches, what spilled.

    Whoever asks it again and again prepares it now and then. Meanwhile a sliding time does not
    slide.
    """

    period: Period
    scope: Scope
    sketches: tuple[Sketch, ...]
    newest_ms: int
    spilled_to: str | None
    remarks: tuple[str, ...]

    def source(self, reads: Reads) -> Source:
        """Where its ranking comes from."""
        return SketchedSource(reads, self.sketches)

    def ranking(self, known: AsOf, notes: list[str]) -> Ranking:
        """What is to be said of an answer."""
        span, region = self.scope.span, self.scope.region
        return Ranking(
            family=self.scope.family,
            region=ALL_REGIONS if region is None else region,
            window=self.period.text(span),
            since=spans.window_text(span.since_ms),
            until=None if span.until_ms == spans.FOREVER_MS else spans.window_text(span.until_ms),
            known=known,
            spilled_to=self.spilled_to,
            remarks=[*notes, *self.remarks],
        )

    def emptiness(self) -> str:
        """Why there may be nothing to rank."""
        where = "" if self.scope.region is None else f" in region {self.scope.region!r}"
        return (
            f"no counter of {self.scope.family} was above 0 in that time{where}; the family's "
            f"newest minute is {spans.window_text(self.newest_ms)}"
        )


def prepared(
    reads: Reads, family: str, period: Period, region: str, positions: Sequence[FlushedShard]
) -> Prepared:
    """What a ranking is made of, with positions that were read before.

    Blocks; raises NothingThereError for a family nobody counted, TryAgainError.
    """
    newest, counted_as = newest_ms(reads, family)
    span = period.span(reads.now_ms(), newest)
    found = windows(reads, counted_as, span, positions)
    scope = Scope(family, None if region == ALL_REGIONS else region, found.pieces, span)
    known = tuple(sketches(reads, family, span))
    # Sketches know what spilled.
    spilled_to = None if known else _spilled_to(reads, scope)
    return Prepared(period, scope, known, newest, spilled_to, tuple(found.remarks))


def _spilled_to(reads: Reads, scope: Scope) -> str | None:
    rest = spill_counter(scope.family)
    rows = reads.rows(
        "SELECT counter, sum(p) + sum(n) AS amount "
        f"FROM ({cell_sql.cells(scope.pieces)}) GROUP BY counter",
        {"counters": [rest, spill_counter("")]},
    )
    return reads.spill_of(rest, {counter: int(amount) for counter, amount in rows})


def top(
    reads: Reads,
    family: str,
    period: Period,
    *,
    k: int = 10,
    region: str = ALL_REGIONS,
    source: Source | None = None,
) -> TopAnswer:
    """The `k` greatest counters; those at zero or below are none.

    Blocks; raises NothingThereError for a family nobody counted, TryAgainError.
    """
    positions = reads.positions()
    asked = prepared(reads, family, period, region, positions)
    return greatest(reads, asked, positions, k, source)


def greatest(
    reads: Reads,
    asked: Prepared,
    positions: Sequence[FlushedShard],
    k: int,
    source: Source | None = None,
) -> TopAnswer:
    """As `top`, of a question that is prepared: one query, unless the family has sketches.

    `positions` were read before. Blocks; raises TryAgainError.
    """
    rows = (source or asked.source(reads)).greatest(asked.scope, k)
    notes = [] if rows else [asked.emptiness()]
    known = as_of(positions, reads.now_ms(), reads.rules(), reads.partitions())
    return TopAnswer(asked.ranking(known, notes), ranked(rows))


def rank(
    reads: Reads,
    counter: str,
    period: Period,
    *,
    region: str = ALL_REGIONS,
    source: Source | None = None,
) -> RankAnswer:
    """A counter's place in its family.

    Blocks; raises BadInputError for what is no counter, and as `top` does.
    """
    family, colon, key = counter.partition(":")
    if not (family and colon and key):
        raise BadInputError(f"{counter!r} is no counter; write family:key")
    positions = reads.positions()
    asked = prepared(reads, family, period, region, positions)
    place = (source or asked.source(reads)).place(asked.scope, counter)
    notes = []
    if not place.of:
        notes = [asked.emptiness()]
    elif place.rank is None:
        notes = [f"it has no rank: its count in that time is {place.row.count:,}, not above 0"]
    above, below = _neighbours(place)
    known = as_of(positions, reads.now_ms(), reads.rules(), reads.partitions())
    return RankAnswer(
        ranking=asked.ranking(known, notes),
        counter=counter,
        rank=place.rank,
        of=place.of,
        count=place.row.count,
        error=place.row.error,
        above=above,
        below=below,
    )


def _neighbours(place: Place) -> tuple[RankedCounter | None, RankedCounter | None]:
    def ranked_at(row: Row | None, rank: int) -> RankedCounter | None:
        return None if row is None else RankedCounter(rank, row.counter, row.count, row.error)

    if place.rank is None:  # All that have a rank are above.
        return ranked_at(place.above, place.of), None
    return ranked_at(place.above, place.rank - 1), ranked_at(place.below, place.rank + 1)
