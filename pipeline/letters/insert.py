"""Puts rows that were set aside back into their tables: cells, sketches, registers of members.

All of them are absolute values that merge, so putting one back twice, or in any order, changes
nothing. What else has to be written depends on the table: see summed.py, registers.py, heaviest.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pipeline.dead_letters import VALUE_BYTES_MAX
from pipeline.letters.lineage import FOR_EVER_MS
from pipeline.letters.rows import read_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.letters.letter import LetterKey
    from pipeline.letters.lineage import Lineage
    from pipeline.letters.retry import Letters
    from pipeline.letters.rows import SetAsideRow

CHUNK_ROWS = 100
CHUNK_BYTES = 8 << 20
"""So many rows, of so many bytes in their letters, are put back and remembered together."""

_REBUILD = "a rebuild counts them while the log has their records"
INSERTED = "inserted before"
GONE = f"past retention: the rows that belong together with them are gone; {_REBUILD}"
CUT = f"only the first {VALUE_BYTES_MAX:,} bytes were kept, which is no whole row; {_REBUILD}"
UNREADABLE = "not in the topic any more, or no row of this build"


@dataclass(slots=True)
class Inserted:
    """Of how many letters the rows are counted now, and of how many not, by reason."""

    letters: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def left(self) -> int:
        """How many should have been inserted and were not."""
        return self.skipped.total() - self.skipped[INSERTED]


class RowTable(Protocol):
    """Where rows are written that were refused."""

    def insert(self, rows: Sequence[SetAsideRow]) -> Mapping[int, str]:
        """Return when those that are taken are stored; the others' places, with reasons.

        All rows are of one table, and there is at least one.
        """
        ...


class PutsBack(Protocol):
    """What knows where the rows of a table belong."""

    def put_back(self, rows: Sequence[Any], /) -> Mapping[int, str]:
        """Return when rows are wherever they belong; the places of those left out, with reasons."""
        ...


class PutBackMemory(Protocol):
    """What remembers which rows are in the tables of which build."""

    def record_put_back(self, keys: Sequence[LetterKey], build: int, put_back_at_ms: int) -> None:
        """Return when it is stored."""
        ...


def insert(
    keys: Sequence[LetterKey],
    build: int,
    *,
    older: Lineage | None = None,
    letters: Letters,
    tables: Mapping[str, PutsBack],
    memory: PutBackMemory,
    clock: Clock,
) -> Inserted:
    """Put the rows of these letters back, and remember that this build has them. Blocks.

    `older` has builds that it was given earlier days of: their rows before a log time are written
    as its own. `tables` has what is to do by the rows' table. Raises TryAgainError when a server is
    away, OperatorError when ClickHouse takes nothing; what was inserted until then is remembered,
    or inserted again to no effect.
    """
    done = Inserted()
    whose = {**(older or {}), build: FOR_EVER_MS}
    for chunk in _chunks(_rows(keys, build, whose, letters, done.skipped)):
        for table, rows in chunk.items():
            left = tables[table].put_back(list(rows.values()))
            done.skipped.update(left.values())
            taken = [key for at, key in enumerate(rows) if at not in left]
            if taken:
                memory.record_put_back(taken, build, clock.now_ms())
            done.letters += len(taken)
    return done


def refused_still(
    table: RowTable, rows: Sequence[SetAsideRow], chosen: Sequence[int]
) -> dict[int, str]:
    """Insert the rows at the chosen places; those that ClickHouse refuses, with the reason."""
    refused = table.insert([rows[at] for at in chosen]) if chosen else {}
    return {chosen[at]: f"ClickHouse refuses them still: {why}" for at, why in refused.items()}


def _rows(
    keys: Sequence[LetterKey],
    build: int,
    whose: Lineage,
    letters: Letters,
    skipped: Counter[str],
) -> Iterator[tuple[LetterKey, SetAsideRow, int]]:
    """What letters hold, as rows of the build, with the bytes of each; others are counted by
    reason."""
    found = 0
    for letter in letters.find(keys):
        if letter.is_cut:
            found += 1
            skipped[CUT] += 1
            continue
        row = read_row(letter.value)
        if row is not None and row.log_ms < whose.get(row.build, 0):
            found += 1
            yield letter.key, msgspec.structs.replace(row, build=build), letter.bytes_total
    if found < len(keys):
        skipped[UNREADABLE] += len(keys) - found


def _chunks(
    found: Iterator[tuple[LetterKey, SetAsideRow, int]],
) -> Iterator[dict[str, dict[LetterKey, SetAsideRow]]]:
    """Some rows at a time, by table."""
    chunk: dict[str, dict[LetterKey, SetAsideRow]] = {}
    rows = size = 0
    for key, row, row_bytes in found:
        chunk.setdefault(row.table, {})[key] = row
        rows, size = rows + 1, size + row_bytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, rows, size = {}, 0, 0
    if chunk:
        yield chunk
