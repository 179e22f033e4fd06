"""Which rows of a table are compared, as conditions. Pure.

Numbers and days are ours and are put in as they are; names are bound parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from pipeline.builds.comparing.kept import ALL, NONE, Gone, gone_of
from pipeline.builds.comparing.reach import DAY_MS, FOREVER_MS, Pair, Reach
from pipeline.placing import slot_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.builds.comparing.compared import Scope
    from pipeline.rollup.retention import FamilySet, Grain

FIRST_DAY = date(1970, 1, 1)
_FOREVER_S = FOREVER_MS // 1000


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's key and values; what is too much for one question is divided by `share`."""

    key: Sequence[str]
    values: Sequence[str]
    share: str

    @property
    def keys(self) -> str:
        """The key as a list in a statement."""
        return ", ".join(self.key)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the rows of some days or months, one of `parts` shares of them.

    Nothing else than the day itself tells these from each other: the same may be gone of all.
    `finer_days` has the days of which there are minutes or hours, by kind; `folded` the builds that
    have the months in lifetime totals for good.
    """

    old: int
    new: int
    scope: Scope
    reach: Reach
    gone: Gone
    units: tuple[date, ...] = (FIRST_DAY,)
    finer_days: Mapping[str, frozenset[date]] = field(default_factory=dict)
    folded: frozenset[int] = frozenset()
    part: int = 0
    parts: int = 1

    @property
    def builds(self) -> str:
        """Rows of both builds."""
        return f"build IN ({self.old}, {self.new})"

    @property
    def is_rolled(self) -> bool:
        """Whether every shard is rolled up past the days in both builds."""
        return self.reach.is_rolled(max(self.units))

    def parameters(self) -> dict[str, Any]:
        """What the conditions refer to by name."""
        named: dict[str, Any] = {
            f"replica_{number}": name for number, name in enumerate(_replicas(self.reach))
        }
        for grain in ("1m", "1h", "1d"):
            named[f"gone_{grain}"] = list(self.families_gone(grain).names)
        return named | {"family": self.scope.family or "", "counter": self.scope.counter or ""}

    def families_gone(self, grain: Grain) -> FamilySet:
        """The families of which the grain may be gone on the days, or in their months."""
        return gone_of(self.gone, grain, self.units[0])


def within(asked: Asked, column: str) -> str:
    """Rows of the days or months."""
    days = ", ".join(f"toDate('{unit}')" for unit in asked.units)
    return f"{column} IN ({days})"


def kept(asked: Asked, grain: Grain) -> str:
    """Rows of families of which nothing can be gone."""
    families = asked.families_gone(grain)
    if families == NONE:
        return "true"
    if families == ALL:
        return "false"
    has = f"has({{gone_{grain}:Array(String)}}, toString(family))"
    return has if families.all_but else f"NOT {has}"


def scoped(asked: Asked, *, has_window: bool = True) -> str:
    """Rows within the scope."""
    scope, conditions = asked.scope, ["true"]
    if scope.counter is not None:
        conditions.append("counter = {counter:String}")
    if scope.family is not None:
        conditions.append("family = {family:String}")
    if has_window and scope.since_ms is not None:
        # Rounded up: a window that begins before is not in it.
        conditions.append(f"window >= toDateTime({_seconds(scope.since_ms)}, 'UTC')")
    if has_window and scope.until_ms is not None:
        conditions.append(f"window < toDateTime({_seconds(scope.until_ms)}, 'UTC')")
    return " AND ".join(conditions)


def share(asked: Asked, column: str) -> str:
    """One of the shares of a question that is too large to be asked at once."""
    return "true" if asked.parts == 1 else f"cityHash64({column}) % {asked.parts} = {asked.part}"


def over_slot(reach: Reach) -> str:
    """Rows in slots that are compared."""
    until_s = {pair: at_ms // 1000 for pair, at_ms in reach.until_ms.items()}
    at_s = "toUnixTimestamp(slot)"
    return (
        f"({at_s} < {by_pair(reach, until_s, _FOREVER_S)} OR {at_s} >= {reach.beyond_ms // 1000})"
    )


def over_day(reach: Reach, column: str = "slot_day") -> str:
    """Rows of slot days that are over, and so compared."""
    until = {pair: at_ms // DAY_MS for pair, at_ms in reach.until_ms.items()}
    return _over(column, by_pair(reach, until, _FOREVER_S), reach)


def over_day_everywhere(reach: Reach) -> str:
    """Rows that do not tell of shards, of slot days that are over in all of them."""
    return _over("slot_day", str(reach.all_until_ms // DAY_MS), reach)


def over_month(reach: Reach) -> str:
    """Rows of months of slot days that are over."""
    until = {
        pair: _FOREVER_S if at_ms == FOREVER_MS else _number(_month(at_ms))
        for pair, at_ms in reach.until_ms.items()
    }
    return _over("slot_month", by_pair(reach, until, _FOREVER_S), reach)


def comparable(reach: Reach) -> str:
    """Rows of shards that both builds count, or none."""
    known = {pair: int(at_ms > 0) for pair, at_ms in reach.until_ms.items()}
    return f"{by_pair(reach, known, 1)} = 1"


def rolled(asked: Asked) -> str:
    """Rows of shards that are rolled up past their slot day in both builds."""
    reach = asked.reach
    days = {pair: reach.rolled_ms.get(pair, 0) // DAY_MS for pair in reach.until_ms}
    return f"{by_pair(reach, days, _FOREVER_S)} > toUInt16(slot_day)"


def rolled_slot(asked: Asked) -> str:
    """Rows of slots that are rolled up in their own build."""
    times = [
        by_pair(asked.reach, {pair: slot_of(at_ms) // 1000 for pair, at_ms in one.items()}, 0)
        for one in (asked.reach.old_rolled_ms, asked.reach.new_rolled_ms)
    ]
    return f"toUnixTimestamp(slot) < if(build = {asked.old}, {times[0]}, {times[1]})"


def reached_offset(through: Mapping[int, int]) -> str:
    """Rows at offsets of their shard that both builds have passed."""
    if not through:
        return "true"
    shards, offsets = list(through), list(through.values())
    return (
        f"`offset` <= transform(shard, CAST({shards}, 'Array(UInt32)'), "
        f"CAST({offsets}, 'Array(Int64)'), toInt64({2**63 - 1}))"
    )


def by_pair(reach: Reach, values: Mapping[Pair, int], default: int) -> str:
    """The value of a row's replica and shard, as an expression; `default` for unknown ones."""
    cases = []
    for number, name in enumerate(_replicas(reach)):
        theirs = {shard: value for (replica, shard), value in values.items() if replica == name}
        if theirs:
            cases.append(
                f"replica = {{replica_{number}:String}}, "
                f"transform(shard, CAST({list(theirs)}, 'Array(UInt32)'), "
                f"CAST({list(theirs.values())}, 'Array(UInt32)'), toUInt32({default}))"
            )
    return f"multiIf({', '.join(cases)}, toUInt32({default}))" if cases else f"toUInt32({default})"


def _replicas(reach: Reach) -> list[str]:
    return sorted({replica for replica, _ in reach.until_ms})


def _over(column: str, until_day: str, reach: Reach) -> str:
    day = f"toUInt32(toUInt16({column}))"
    return f"({day} < {until_day} OR {day} > {reach.beyond_ms // DAY_MS})"


def _seconds(at_ms: int) -> int:
    return min(max(-(-at_ms // 1000), 0), _FOREVER_S)


def _month(at_ms: int) -> date:
    return (FIRST_DAY + timedelta(days=at_ms // DAY_MS)).replace(day=1)


def _number(day: date) -> int:
    return (day - FIRST_DAY).days
