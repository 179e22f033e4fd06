"""The tables in which builds are compared: their keys, their values, and day by day which rows.

To compare one more, describe it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from pipeline.builds.comparing import bounds, selects
from pipeline.builds.comparing.sql import Asked, Columns

if TYPE_CHECKING:
    from pipeline.rollup.retention import Grain

Present = Mapping[str, Mapping[date, int]]
"""How many rows each table has of either build, by partition: its day or month, if it has one."""

Units = Mapping[date, int]
"""Days or months to ask for one by one, and about how many rows each has."""

_EVERYTHING = frozenset({"counter", "family", "window"})
_NO_COUNTER = frozenset({"family", "window"})
_BOUNDS = ("above", "below")
_ROLLED: tuple[Grain, ...] = ("1h", "1d")

_COUNTS = ("p", "n", "duplicates")
_SUMS = ("p", "n")
_SHARD = ("replica", "shard")
_CELL = Columns(
    ("counter", "region", "window", "slot", *_SHARD), (*_COUNTS, "through"), share="counter"
)
_HOUR = Columns(("counter", "region", "window", "slot_day", *_SHARD), _COUNTS, share="counter")
_LIFE = Columns(("counter", "region", "slot_month", *_SHARD), _COUNTS, share="counter")
_BUCKETS = ("family", "width", "bucket")
_BUCKET = Columns((*_BUCKETS, "window", "region", "slot", *_SHARD), _SUMS, share="bucket")
_BUCKET_HOUR = Columns((*_BUCKETS, "window", "region", "slot_day", *_SHARD), _SUMS, share="bucket")
_BUCKET_LIFE = Columns((*_BUCKETS, "region", "slot_month", *_SHARD), _SUMS, share="bucket")
_REGISTERS = Columns(
    ("counter", "region", "window", "precision", "slot_day"),
    ("registers", "ranks", "digest"),
    share="counter",
)
_HEAVY = Columns(
    ("family", "region", "slot", *_SHARD), ("through", "lost", "names", "digest"), "slot"
)
_LETTER = Columns(("shard", "`offset`", "`row`", "log_time"), ("reason", "bytes"), "`offset`")
_ADJUSTMENT = Columns(
    ("counter", "id", "log_time", "shard", "`offset`"),
    ("region", "grain", "window", "by", "who", "why", "before", "after", "at"),
    share="counter",
)
_BY_SLOT = "toUnixTimestamp(slot)"
_BY_COUNTER = "cityHash64(counter) % 1024"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, or what answers come from. `strip` divides a unit's rows into parts that are looked
    at row by row if they differ; `knows` is what of a scope it can tell; `by_unit` has the units
    that there are, and `rows` a SELECT of one of them."""

    name: str
    columns: Columns
    strip: str
    knows: frozenset[str]
    by_unit: Callable[[Present], Units]
    rows: Callable[[Asked], str]


def _units(*tables: str) -> Callable[[Present], Units]:
    """The units that any of the tables has, with the rows of all."""

    def units(present: Present) -> Units:
        found: dict[date, int] = {}
        for table in tables:
            for unit, rows in present.get(table, {}).items():
                found[unit] = found.get(unit, 0) + rows
        return found

    return units


def _months(kind: str) -> Callable[[Present], Units]:
    """Months that lifetime totals have, or should have, with the rows of all that is added up."""

    def months(present: Present) -> Units:
        found = dict.fromkeys(present.get(f"{kind}_life", {}), 0)
        for grain in ("1m", "1h", "1d", "life"):
            for unit, rows in present.get(f"{kind}_{grain}", {}).items():
                month = unit.replace(day=1)
                if month in found:
                    found[month] += rows
        return found

    return months


def _counted(
    kind: str, minute: Columns, hour: Columns, lifetime: Columns, knows: frozenset[str]
) -> list[Table]:
    """Cells, or the buckets of sketches: minutes, what they are rolled up to, and lifetimes."""
    view = "merged" if kind == "cells" else f"merged_{kind}"
    bounded, totals = (replace(one, values=(*one.values, *_BOUNDS)) for one in (hour, lifetime))
    minutes = partial(selects.minutes, table=f"{kind}_1m", columns=minute)
    tables = [Table(f"{kind}_1m", minute, _BY_SLOT, knows, _units(f"{kind}_1m"), minutes)]
    days = _units(f"{kind}_1m", f"{kind}_1h")
    for grain in _ROLLED:
        name = f"{view}_{grain}"
        answers = partial(selects.merged, view=name, columns=hour, grain=grain)
        rows = partial(bounds.rolled, kind=kind, grain=grain, columns=hour)
        tables += [
            Table(name, hour, "shard", knows, days, answers),
            Table(f"{kind}_{grain}", bounded, "shard", knows, days, rows),
        ]
    left = partial(selects.left_days, kind=kind, columns=hour)
    merged = partial(selects.merged_life, view=f"{view}_life", columns=lifetime)
    folded = partial(bounds.life, kind=kind, columns=lifetime)
    months, known = _months(kind), knows - {"window"}
    return [
        *tables,
        Table(f"{kind}_1d", bounded, "shard", knows, _units(f"{kind}_1d"), left),
        Table(f"{view}_life", lifetime, "shard", known, months, merged),
        Table(f"{kind}_life", totals, "shard", known, months, folded),
    ]


def _distinct(grain: Grain) -> Table:
    name = f"distinct_{grain}"
    rows = partial(selects.registers, table=name, columns=_REGISTERS, grain=grain)
    return Table(name, _REGISTERS, _BY_COUNTER, _EVERYTHING, _units(name), rows)


def _plain(
    name: str,
    columns: Columns,
    strip: str,
    knows: frozenset[str],
    rows: Callable[[Asked, Columns], str],
) -> Table:
    return Table(name, columns, strip, knows, _units(name), lambda asked: rows(asked, columns))


TABLES = [
    *_counted("cells", _CELL, _HOUR, _LIFE, _EVERYTHING),
    _distinct("1m"),
    _distinct("1h"),
    _distinct("1d"),
    _plain("adjustments", _ADJUSTMENT, "shard", _EVERYTHING, selects.adjustments),
    *_counted("frequency", _BUCKET, _BUCKET_HOUR, _BUCKET_LIFE, _NO_COUNTER),
    _plain("heavy_1m", _HEAVY, _BY_SLOT, frozenset({"family"}), selects.heaviest),
    _plain("dead_letters", _LETTER, "shard", frozenset(), selects.letters),
]

KINDS = ("cells", "frequency")
PARTITIONED = (
    *(f"{kind}_{grain}" for kind in KINDS for grain in ("1m", "1h", "1d", "life")),
    *("distinct_1m", "distinct_1h", "distinct_1d", "adjustments", "heavy_1m", "dead_letters"),
)
"""The tables of which it must be known what partitions there are."""
