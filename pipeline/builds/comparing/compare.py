"""Compares two builds in one ClickHouse: are their counts the same, as far as both have come?

It goes table by table and day by day of log time, so that no question is about all rows at once.
pipeline/builds/compare_tables.py has what is compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.builds.comparing import looks
from pipeline.builds.comparing.compared import (
    EXAMPLES_MAX,
    Comparison,
    Example,
    Scope,
    TableCompared,
    lines,
)
from pipeline.builds.comparing.reach import Reach, least, unmoved
from pipeline.builds.comparing.sql import Asked
from pipeline.builds.comparing.state import Asking
from pipeline.builds.comparing.tables import KINDS, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    from clickhouse_connect.driver import Client

    from pipeline.builds.comparing.state import State
    from pipeline.builds.comparing.tables import Table, Units

__all__ = ["Comparison", "Scope", "compare", "lines"]

SHARE_ROWS = 1_000_000
"""About so many rows one question may group, so that its memory is bounded."""


def compare(
    client: Client,
    old: int,
    new: int,
    scope: Scope,
    *,
    examples_max: int = EXAMPLES_MAX,
    tell: Callable[[str], None] = lambda _table: None,
) -> Comparison:
    """Compare two builds. Blocks, for minutes if there is much; `tell` hears of each table before.

    Raises TryAgainError when ClickHouse is away, OperatorError for a retention in it that this
    Tally does not understand. Both builds may be counted on, rolled up and dropped from meanwhile.
    """
    asking = Asking(client, old, new)
    looking = _Looking(asking, Asked(old, new, scope, Reach({}), {}), examples_max)
    tables = [table for table in TABLES if scope.names <= table.knows]
    before = asking.state()
    found = {table.name: TableCompared(table.name) for table in tables}
    unlike, reached = [], before.reach
    for table in tables:
        tell(table.name)
        unlike += [(table, units) for units in looking.unlike(table, before, found[table.name])]
    if unlike:
        # Builds go on meanwhile: what differs must do so by what is known afterwards.
        after = asking.state()
        counted, still = looking.count_all(unlike, after), after.reach
        while any(one.differ for one in counted.values()):
            stood = unmoved(still, after.positions, asking.positions())
            if stood == still:
                break
            # Fewer shards are compared to their end each time, so there is a last time.
            still = stood
            counted = looking.count_all(unlike, replace(after, reach=still))
        reached = least(before.reach, still)
        for name, one in counted.items():
            found[name].add(one)
    shards = asking.shards(replace(before, reach=reached))
    return Comparison(old, new, scope, shards, list(found.values()))


class _Looking:
    """One comparison under way."""

    def __init__(self, asking: Asking, asked: Asked, examples_max: int) -> None:
        self._asking = asking
        self._asked = asked
        self._examples_max = examples_max
        self._present = asking.present()

    def unlike(self, table: Table, state: State, found: TableCompared) -> Iterator[Units]:
        """Compare what there is of a table by digests. What is not alike is left to be counted."""
        for units in self._batches(table.by_unit(self._present), state):
            ask = [
                self._ask(looks.by_digest(table, asked), asked)
                for asked in self._shares(units, state)
            ]
            if any(strips for [(_, strips)] in ask):
                yield units
            else:
                found.compared += sum(int(alike) for [(alike, _)] in ask)

    def count_all(
        self, unlike: Sequence[tuple[Table, Units]], state: State
    ) -> dict[str, TableCompared]:
        """Compare units of tables row by row."""
        found = {table.name: TableCompared(table.name) for table, _ in unlike}
        for table, units in unlike:
            self.count(table, units, state, found[table.name])
        return found

    def count(self, table: Table, units: Units, state: State, found: TableCompared) -> None:
        """Compare some units row by row."""
        for batch in self._batches(units, state):
            for asked in self._shares(batch, state):
                [(alike, strips)] = self._ask(looks.by_digest(table, asked), asked)
                found.compared += int(alike)
                if strips:
                    self._count(table, asked, strips, found)

    def _count(
        self, table: Table, asked: Asked, strips: Sequence[int], found: TableCompared
    ) -> None:
        [(keys, differ)] = self._ask(looks.by_number(table, asked, strips), asked)
        found.compared += int(keys)
        found.differ += int(differ)
        wanted = self._examples_max - len(found.examples)
        if differ and wanted > 0:
            query = looks.by_example(table, asked, strips, wanted)
            found.examples += [_example(table, row) for row in self._ask(query, asked)]

    def _batches(self, units: Units, state: State) -> Iterator[Units]:
        """Units to be asked for together: they are alike, and not too large."""
        batch: dict[date, int] = {}
        for unit, rows in sorted(units.items()):
            is_full = sum(batch.values()) + rows > SHARE_ROWS
            if batch and (is_full or state.alike(unit) != state.alike(next(iter(batch)))):
                yield batch
                batch = {}
            batch[unit] = rows
        if batch:
            yield batch

    def _shares(self, units: Units, state: State) -> Iterator[Asked]:
        is_one = self._asked.scope.counter is not None
        parts = 1 if is_one else 1 + sum(units.values()) // SHARE_ROWS
        finer = {
            kind: frozenset({*self._present[f"{kind}_1m"], *self._present[f"{kind}_1h"]})
            for kind in KINDS
        }
        for part in range(parts):
            yield replace(
                self._asked,
                reach=state.reach,
                gone=state.gone,
                units=tuple(units),
                finer_days=finer,
                folded=state.folded.get(next(iter(units)), frozenset()),
                part=part,
                parts=parts,
            )

    def _ask(self, query: str, asked: Asked) -> list[Any]:
        return self._asking.rows(query, asked.parameters())


def _example(table: Table, row: Sequence[Any]) -> Example:
    keys, values = len(table.columns.key), len(table.columns.values)
    names = [name.strip("`") for name in table.columns.key]
    in_old, in_new = row[keys : keys + 2]
    first, second = row[keys + 2 : keys + 2 + values], row[keys + 2 + values :]
    return Example(
        key=dict(zip(names, map(_plain, row[:keys]), strict=True)),
        old=dict(zip(table.columns.values, map(_plain, first), strict=True)) if in_old else None,
        new=dict(zip(table.columns.values, map(_plain, second), strict=True)) if in_new else None,
    )


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as text, in UTC, without seconds where there are none."""
    if isinstance(value, int | str):
        return value
    text = str(value).removesuffix("+00:00")
    return text.removesuffix(":00") if text.count(":") > 1 else text
