"""Who began and who ceased to trend, as a feed of the last hour."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pipeline.reads import live, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import Reads

OVER_MS = 3_600_000
MOVES_MAX = 20

_SINCE = "window >= toDateTime({since_s:UInt32}, 'UTC')"
_WINDOWS = (
    "SELECT DISTINCT toUnixTimestamp(window) AS at FROM tally.trend_windows "  # noqa: S608 - constants
    f"WHERE {live.OWN} AND {_SINCE} ORDER BY at"
)
_TRENDED = (
    "SELECT toUnixTimestamp(window), counter, toString(kind), score FROM tally.trend_rankings "  # noqa: S608 - constants
    f"WHERE {live.OWN} AND family = {{family:String}} AND region = {{region:String}} "
    f"AND {_SINCE} AND entered IS NOT NULL"
)


class Trended(NamedTuple):
    """A counter that trended in a minute."""

    at_s: int
    counter: str
    kind: str
    score: float


@dataclass(frozen=True, slots=True)
class Move:
    """A counter entered or left with a minute; `kind` and `score` are what it entered with."""

    transition: Literal["enter", "leave"]
    counter: str
    window: str
    kind: str | None = None
    score: float | None = None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


def moves(reads: Reads, family: str, region: str) -> list[Move]:
    """The last moves of a family in a region, newest first. Blocks; raises TryAgainError."""
    since = {"since_s": (reads.now_ms() - OVER_MS) // 1000}
    minutes = [int(at_s) for (at_s,) in reads.rows(_WINDOWS, since)]
    rows = reads.rows(_TRENDED, {**since, "family": family, "region": region})
    trended = [
        Trended(int(at), str(name), str(kind), float(score)) for at, name, kind, score in rows
    ]
    return moves_of(minutes, trended)


def moves_of(minutes: Sequence[int], trended: Sequence[Trended]) -> list[Move]:
    """Who trends in a minute and not in the one before, and the other way around. Pure.

    `minutes` are those that were scored, in order. Of the first it is not known who was there
    before, so nobody enters with it.
    """
    by_minute: dict[int, dict[str, Trended]] = {at_s: {} for at_s in minutes}
    for one in trended:
        by_minute.setdefault(one.at_s, {})[one.counter] = one
    found: list[Move] = []
    for before_s, at_s in pairwise(minutes):
        before, now, text = by_minute[before_s], by_minute[at_s], spans.window_text(at_s * 1000)
        found += [Move("leave", name, text) for name in sorted(before.keys() - now.keys())]
        found += [
            Move("enter", name, text, now[name].kind, now[name].score)
            for name in sorted(now.keys() - before.keys())
        ]
    return found[::-1][:MOVES_MAX]
