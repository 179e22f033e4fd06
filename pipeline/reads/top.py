# ruff: noqa: S608 - what is put into statements are constants and whole numbers, see cell_sql.
"""The greatest counters of a family, and a counter's place among them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.caps import spill_counter
from pipeline.errors import BadInputError
from pipeline.reads import cell_sql, spans
from pipeline.reads.as_of import AsOf, as_of
from pipeline.reads.family_windows import Period, newest_ms, windows
from pipeline.reads.ranking import RankedCounter, Row, Scope, ranked
from pipeline.reads.sketched import sketches
from pipeline.reads.sketched_ranking import SketchedSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.ranking import Place, Source
    from pipeline.reads.reads import FlushedShard, Reads

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
    asked = _Asked(reads, family, period, region)
    rows = (source or asked.source).greatest(asked.scope, k)
    notes = [] if rows else [asked.emptiness()]
    return TopAnswer(asked.ranking(notes), ranked(rows))


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
    asked = _Asked(reads, family, period, region)
    place = (source or asked.source).place(asked.scope, counter)
    notes = []
    if not place.of:
        notes = [asked.emptiness()]
    elif place.rank is None:
        notes = [f"it has no rank: its count in that time is {place.row.count:,}, not above 0"]
    above, below = _neighbours(place)
    return RankAnswer(
        ranking=asked.ranking(notes),
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


class _Asked:
    """A question while it is being answered. Positions come first: what is read later has more."""

    def __init__(self, reads: Reads, family: str, period: Period, region: str) -> None:
        self._reads = reads
        self._period = period
        self._newest_ms, counted_as = newest_ms(reads, family)
        self._positions: Sequence[FlushedShard] = reads.positions()
        self._span = period.span(reads.now_ms(), self._newest_ms)
        found = windows(reads, counted_as, self._span, self._positions)
        self._remarks = found.remarks
        place = None if region == ALL_REGIONS else region
        self.scope = Scope(family, place, found.pieces, self._span)
        self._sketches = sketches(reads, family, self._span)
        self.source = SketchedSource(reads, self._sketches)

    def ranking(self, notes: list[str]) -> Ranking:
        """To be asked for at the end: as of when it is goes by the clock."""
        span, region = self._span, self.scope.region
        return Ranking(
            family=self.scope.family,
            region=ALL_REGIONS if region is None else region,
            window=self._period.text(span),
            since=spans.window_text(span.since_ms),
            until=None if span.until_ms == spans.FOREVER_MS else spans.window_text(span.until_ms),
            known=as_of(self._positions, self._reads.now_ms()),
            spilled_to=self._spilled_to(),
            remarks=[*notes, *self._remarks],
        )

    def emptiness(self) -> str:
        """Why there may be nothing to rank."""
        where = "" if self.scope.region is None else f" in region {self.scope.region!r}"
        return (
            f"no counter of {self.scope.family} was above 0 in that time{where}; the family's "
            f"newest minute is {spans.window_text(self._newest_ms)}"
        )

    def _spilled_to(self) -> str | None:
        if self._sketches:  # These know what spilled.
            return None
        rest = spill_counter(self.scope.family)
        rows = self._reads.rows(
            "SELECT counter, sum(p) + sum(n) AS amount "
            f"FROM ({cell_sql.cells(self.scope.pieces)}) GROUP BY counter",
            {"counters": [rest, spill_counter("")]},
        )
        return self._reads.spill_of(rest, {counter: int(amount) for counter, amount in rows})
