"""What a ranking is made of, whoever counts: rows from a source, put in order. Pure.

A source answers for a scope. The exact one sums cells (`exact_ranking`); the one that estimates
(`sketched_ranking`) says so by `low` and `high`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.reads.spans import Piece, Span


@dataclass(frozen=True, slots=True)
class Row:
    """A counter's count, and between which bounds the true one is. An exact one is both bounds."""

    counter: str
    count: int
    low: int
    high: int

    @property
    def error(self) -> int:
        """By how much the count may be wrong."""
        return max(self.high - self.count, self.count - self.low)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which counters are ranked, by which windows. No region is all of them together.

    `span` is the time asked for, which the windows add up to, and whose adjustments count.
    """

    family: str
    region: str | None
    pieces: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Place:
    """Where a counter stands. `rank` is None if its count is not above zero; `of` are ranked."""

    row: Row
    rank: int | None
    of: int
    above: Row | None
    below: Row | None


class Source(Protocol):
    """Counts of a family. Both block, and raise TryAgainError when they cannot be read."""

    def greatest(self, scope: Scope, k: int) -> Sequence[Row]:
        """The greatest counts above zero, at most `k`."""
        ...

    def place(self, scope: Scope, counter: str) -> Place:
        """A counter of the family among all with a count above zero."""
        ...


@dataclass(frozen=True, slots=True)
class RankedCounter:
    """One line of a ranking."""

    rank: int
    counter: str
    count: int
    error: int


def ranked(rows: Iterable[Row]) -> list[RankedCounter]:
    """The greatest first, of equal counts the first by name."""
    return [
        RankedCounter(rank, row.counter, row.count, row.error)
        for rank, row in enumerate(sorted(rows, key=ahead_of), start=1)
    ]


def ahead_of(row: Row) -> tuple[int, bytes]:
    """What rows are ordered by: names by their bytes, as ClickHouse orders text."""
    return -row.count, row.counter.encode(errors="surrogatepass")
