"""Rows that ClickHouse refused, read back from their dead letters. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

Grain = Literal["1h", "1d", "life"]
"""What minutes are added up to."""

Of = tuple[str | int, ...]
"""What is counted: a counter, or a sketch's family, width and bucket."""

Values = tuple[int, ...]
"""p, n and, of cells, duplicates."""

Register = tuple[
    Annotated[int, msgspec.Meta(ge=0, lt=2**16)], Annotated[int, msgspec.Meta(ge=0, lt=2**8)]
]
"""Which one, and its rank."""

RegisterTable = Literal[
    "tally.distinct_1m", "tally.distinct_1h", "tally.distinct_1d", "tally.trend_members"
]
CELLS: Literal["tally.cells_1m"] = "tally.cells_1m"
BUCKETS: Literal["tally.frequency_1m"] = "tally.frequency_1m"
HEAVIEST: Literal["tally.heavy_1m"] = "tally.heavy_1m"
ADJUSTMENTS: Literal["tally.adjustments"] = "tally.adjustments"
REGISTERS: tuple[RegisterTable, ...] = get_args(RegisterTable)

_HOUR_S, _DAY_S = 3600, 86_400

_UInt8 = Annotated[int, msgspec.Meta(ge=0, lt=2**8)]
_UInt32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Through = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class RowId(NamedTuple):
    """What tells one row of a build from another; times are seconds since 1970."""

    of: Of
    region: str
    replica: str
    shard: int
    window_s: int
    slot_s: int


class SumKey(NamedTuple):
    """A row of hours, days or lifetime totals: of which window and of which day of log time.

    Of lifetime totals the window is 1970 and the day is the first of a month.
    """

    of: Of
    region: str
    replica: str
    shard: int
    window_s: int
    slot_day: date


class SummedRow(msgspec.Struct, frozen=True):
    """What one shard saw in one region and window during one slot. Its values are absolute."""

    build: _UInt32
    region: str
    window: datetime
    slot: datetime
    replica: str
    shard: _UInt32
    p: _Count
    n: _Count

    @property
    def of(self) -> Of:
        """What is counted."""
        raise NotImplementedError

    @property
    def values(self) -> Values:
        """What it counts."""
        return self.p, self.n

    @property
    def id(self) -> RowId:
        """Its key."""
        window_s, slot_s = (int(at.timestamp()) for at in (self.window, self.slot))
        return RowId(self.of, self.region, self.replica, self.shard, window_s, slot_s)

    @property
    def log_ms(self) -> int:
        """Its slot."""
        return _ms(self.slot)

    def sum_key(self, grain: Grain) -> SumKey:
        """The row that it is added up in."""
        day, at_s = self.slot.date(), self.id.window_s
        if grain == "life":
            at_s, day = 0, day.replace(day=1)
        else:
            at_s -= at_s % (_HOUR_S if grain == "1h" else _DAY_S)
        return SumKey(self.of, self.region, self.replica, self.shard, at_s, day)


class SetAsideCell(SummedRow, frozen=True, kw_only=True):
    """A row of tally.cells_1m."""

    counter: str
    duplicates: _Count
    through: _Through
    table: Literal["tally.cells_1m"] = CELLS

    @property
    def of(self) -> Of:
        """Its counter."""
        return (self.counter,)

    @property
    def values(self) -> Values:
        """What it counts."""
        return self.p, self.n, self.duplicates


class SetAsideBucket(SummedRow, frozen=True, kw_only=True):
    """A row of tally.frequency_1m: one bucket of a Count-Min."""

    family: str
    width: _UInt32
    bucket: _UInt32
    table: Literal["tally.frequency_1m"] = BUCKETS

    @property
    def of(self) -> Of:
        """The bucket."""
        return self.family, self.width, self.bucket


class SetAsideRegisters(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table of registers, which merge by max. Every grain is written by itself."""

    table: RegisterTable
    build: _UInt32
    counter: str
    region: str
    window: datetime
    precision: _UInt8
    slot_day: date
    registers: tuple[Register, ...]

    @property
    def family(self) -> str:
        """The part of the counter before the first colon."""
        return self.counter.partition(":")[0]

    @property
    def log_ms(self) -> int:
        """When the day of its slot begins."""
        return _ms(datetime.combine(self.slot_day, time(), UTC))


class SetAsideHeaviest(msgspec.Struct, frozen=True, kw_only=True):
    """A row of tally.heavy_1m, of which the one with the greatest `through` holds."""

    build: _UInt32
    slot: datetime
    replica: str
    shard: _UInt32
    family: str
    region: str
    through: _Through
    counters: tuple[str, ...]
    counts: tuple[_Count, ...]
    lost: _Count
    table: Literal["tally.heavy_1m"] = HEAVIEST

    def __post_init__(self) -> None:
        if len(self.counters) != len(self.counts):
            raise ValueError("every counter has a count")

    @property
    def log_ms(self) -> int:
        """Its slot."""
        return _ms(self.slot)


class SetAsideAdjustment(msgspec.Struct, frozen=True, kw_only=True):
    """A row of tally.adjustments: a correction at its place in the log."""

    build: _UInt32
    counter: str
    id: str
    region: str
    grain: str
    window: datetime
    by: _Int64
    who: str
    why: str
    before: _Int64 | None
    after: _Int64 | None
    at: datetime
    log_time: datetime
    shard: _UInt32
    offset: _Count
    table: Literal["tally.adjustments"] = ADJUSTMENTS

    @property
    def log_ms(self) -> int:
        """Log time at its place."""
        return _ms(self.log_time)


SetAsideRow = (
    SetAsideCell | SetAsideBucket | SetAsideRegisters | SetAsideHeaviest | SetAsideAdjustment
)

_KINDS: dict[str, type[SetAsideRow]] = {
    CELLS: SetAsideCell,
    BUCKETS: SetAsideBucket,
    HEAVIEST: SetAsideHeaviest,
    ADJUSTMENTS: SetAsideAdjustment,
    **dict.fromkeys(REGISTERS, SetAsideRegisters),
}
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_row(value: bytes) -> SetAsideRow | None:
    """The row in a dead letter, a cell where it names no table; None if it holds none."""
    try:
        row = _decode(value)
        for name in ("window", "slot", "at", "log_time"):
            if name in row:
                row[name] = _moment(row[name])
        return msgspec.convert(row, _KINDS[row.get("table", CELLS)])
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _moment(text: str) -> datetime:
    """A time as ClickHouse writes it."""
    written = "%Y-%m-%d %H:%M:%S.%f" if "." in text else "%Y-%m-%d %H:%M:%S"
    return datetime.strptime(text, written).replace(tzinfo=UTC)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
