# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""Rankings from cells: ClickHouse sums a whole family, and only what is asked for leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.reads import adjusted, live
from pipeline.reads.cell_sql import within
from pipeline.reads.ranking import Place, Row
from pipeline.rules import EARLINESS_MS
from pipeline.slots import SLOT_MS, spill_counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.ranking import Scope
    from pipeline.reads.reads import Reads
    from pipeline.reads.spans import Piece

# Of two equal counts the first by name is ahead. The reversed count makes one tuple of both.
_AHEAD = "(-count, counter) < (-{count:Int128}, {counter:String})"
_BEHIND = "(-count, counter) > (-{count:Int128}, {counter:String})"


class ExactSource:
    """A Source: the sums over all shards now."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def greatest(self, scope: Scope, k: int) -> Sequence[Row]:
        """As Source says."""
        rows = self._reads.rows(
            f"{_sums(scope)} HAVING count > 0 ORDER BY count DESC, counter LIMIT {{k:UInt32}}",
            {**_parameters(scope), "k": k},
        )
        return [_exact(counter, count) for counter, count in rows]

    def place(self, scope: Scope, counter: str) -> Place:
        """As Source says. The family is summed after the counter, so it may be a little newer."""
        return self.around(scope, _exact(counter, self.count(scope, counter)))

    def around(
        self, scope: Scope, row: Row, without: str = "", bound: Mapping[str, Any] | None = None
    ) -> Place:
        """Where a row would be among the counters that have cells, but those in a query's rows.

        Blocks; raises TryAgainError.
        """
        counter, count = row.counter, row.count
        left_out = f" AND counter NOT IN ({without})" if without else ""
        [(others, ahead, above, behind, below)] = self._reads.rows(
            "SELECT count(), "
            f"countIf({_AHEAD}), argMaxIf((counter, count), (-count, counter), {_AHEAD}), "
            f"countIf({_BEHIND}), argMinIf((counter, count), (-count, counter), {_BEHIND}) "
            f"FROM ({_sums(scope)} HAVING count > 0) "
            f"WHERE counter != {{counter:String}}{left_out}",
            {**_parameters(scope), **(bound or {}), "counter": counter, "count": count},
        )
        is_ranked = count > 0
        return Place(
            row,
            int(ahead) + 1 if is_ranked else None,
            int(others) + is_ranked,
            _exact(*above) if ahead else None,
            _exact(*below) if behind else None,
        )

    def counts(self, scope: Scope, names: str, bound: Mapping[str, Any]) -> dict[str, int]:
        """What the cells of counters add up to that a query has. Blocks; raises TryAgainError."""
        rows = self._reads.rows(
            _sums(scope, f"AND counter IN ({names})"), {**_parameters(scope), **bound}
        )
        return {str(counter): int(count) for counter, count in rows}

    def count(self, scope: Scope, counter: str) -> int:
        """What its cells add up to. Blocks; raises TryAgainError."""
        [(count,)] = self._reads.rows(
            f"SELECT sum(count) FROM ({_sums(scope, 'AND counter = {counter:String}')})",
            {**_parameters(scope), "counter": counter},
        )
        return int(count)


def cells(pieces: Sequence[Piece], columns: str, where: str) -> str:
    """Columns of a family's cells in some windows. Days of log time before them are left alone."""
    return " UNION ALL ".join(
        f"SELECT '{piece.grain}' AS grain, {columns} FROM tally.merged_{piece.grain} "
        f"WHERE {live.ALL} AND family = {{family:String}} AND {within(piece.span)} "
        f"AND {_since(piece)} {where}"
        for piece in pieces
    )


def _since(piece: Piece) -> str:
    # A window may be ahead of its log time by the earliness, and its slot begins before that.
    since_s = max(0, piece.span.since_ms - EARLINESS_MS - SLOT_MS) // 1000
    return f"slot_day >= toDate(toDateTime({since_s}, 'UTC'))"


def _sums(scope: Scope, where: str = "") -> str:
    # What spilled, a counter without a key, is none that could be ranked.
    wanted = f"AND counter != {{rest:String}} {where}"
    if scope.region is not None:
        wanted += " AND region = {region:String}"
    source = cells(scope.pieces, "counter, p, n", wanted)
    adjustments = adjusted.of_family(scope.span, "'' AS unit, counter, p, n", wanted)
    return (
        f"SELECT counter, sum(p) - sum(n) AS count FROM ({source} UNION ALL {adjustments}) "
        "GROUP BY counter"
    )


def _parameters(scope: Scope) -> dict[str, Any]:
    found = {"family": scope.family, "rest": spill_counter(scope.family)}
    return found if scope.region is None else {**found, "region": scope.region}


def _exact(counter: str, count: Any) -> Row:
    return Row(counter, int(count), int(count), int(count))
