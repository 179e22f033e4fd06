"""A cell that was set aside, read back from its dead letter. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Literal, NamedTuple

import msgspec

Grain = Literal["1h", "1d", "life"]
"""What minutes are added up to."""

Values = tuple[int, int, int]
"""p, n and duplicates."""

_HOUR_S, _DAY_S = 3600, 86_400

_UInt32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class CellId(NamedTuple):
    """What tells one cell of a build from another; times are seconds since 1970."""

    counter: str
    region: str
    replica: str
    shard: int
    window_s: int
    slot_s: int


class SumKey(NamedTuple):
    """A row of hours, days or lifetime totals: of which window and of which day of log time.

    Of lifetime totals the window is 1970 and the day is the first of a month.
    """

    counter: str
    region: str
    replica: str
    shard: int
    window_s: int
    slot_day: date


class SetAsideCell(msgspec.Struct, frozen=True):
    """A row of tally.cells_1m; its values are absolute."""

    build: _UInt32
    counter: str
    region: str
    window: datetime
    slot: datetime
    replica: str
    shard: _UInt32
    p: _Count
    n: _Count
    duplicates: _Count
    through: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]

    @property
    def id(self) -> CellId:
        """Its key."""
        window_s, slot_s = (int(at.timestamp()) for at in (self.window, self.slot))
        return CellId(self.counter, self.region, self.replica, self.shard, window_s, slot_s)

    @property
    def values(self) -> Values:
        """What it counts."""
        return self.p, self.n, self.duplicates

    def sum_key(self, grain: Grain) -> SumKey:
        """The row that it is added up in."""
        day, at_s = self.slot.date(), self.id.window_s
        if grain == "life":
            at_s, day = 0, day.replace(day=1)
        else:
            at_s -= at_s % (_HOUR_S if grain == "1h" else _DAY_S)
        return SumKey(self.counter, self.region, self.replica, self.shard, at_s, day)


class _Row(SetAsideCell, frozen=True):
    window: str  # type: ignore[assignment]  # as ClickHouse writes it
    slot: str  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Row).decode


def read_cell(value: bytes) -> SetAsideCell | None:
    """The cell in a dead letter; None if that holds none."""
    try:
        row = msgspec.structs.asdict(_decode(value))
        times = {name: _moment(row[name]) for name in ("window", "slot")}
        return SetAsideCell(**{**row, **times})
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
