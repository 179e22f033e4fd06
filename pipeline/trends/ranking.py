"""Who is trending: gates that keep flukes and bots out, and the ranking of the rest.

Entering takes all gates. Staying takes half of each (double the events per member), so that a
counter at the edge does not come and go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.rules import TrendRules
    from pipeline.trends.candidates import Counts, Flags
    from pipeline.trends.score import Scored

LEADERS = 10
"""How many of the greatest by count are shown as `top`, if nothing is exceptional about them."""

_ENTER, _STAY = 1, 2

SCHEMA = pa.schema(
    [
        ("rank", pa.int64()),
        ("counter", pa.string()),
        ("observed", pa.int64()),
        ("expected", pa.float64()),
        ("score", pa.float64()),
        ("kind", pa.string()),
        ("horizon_minutes", pa.int64()),
        ("entered_ms", pa.int64()),
        ("provisional", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Ranking:
    """At most `k` rows with the columns of SCHEMA: who trends by score, then who leads by count.

    `kind` is `rising` or `new` for the former and `top` for the latter, whose `entered_ms` is null.
    `trending` has the window each trending counter entered in. It is `before` of the next window,
    if this window is closed.
    """

    window_ms: int
    provisional: bool
    trending: dict[str, int]
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class InRegions:
    """For `*`: in how many regions each candidate trends, of how many that are active."""

    count: Counts
    active: int


def in_regions(counters: pa.Array, trending: Mapping[str, Mapping[str, int]]) -> InRegions:
    """Counted over all active regions: those with counts in the last hour, trending or not."""
    count = np.zeros(len(counters), dtype=np.int64)
    for one in trending.values():
        count += _among(counters, one)
    return InRegions(count, len(trending))


def rank(
    scored: Scored,
    rules: TrendRules,
    before: Mapping[str, int],
    *,
    window_ms: int,
    provisional: bool = False,
    regions: InRegions | None = None,
) -> Ranking:
    """Rank the candidates of one region, or of `*` when `regions` is given.

    `before` is `trending` of the window before this one; a provisional ranking takes
    that of the last closed window, and is not `before` of any.
    """
    is_in = _within(scored, rules, regions, _ENTER)
    is_in |= _among(scored.counters, before) & _within(scored, rules, regions, _STAY)
    best = _best(scored, np.flatnonzero(is_in), scored.score, rules.k)
    leading = _best(scored, np.flatnonzero(scored.hour_count > 0), scored.hour_count, LEADERS)
    is_ordinary = ~is_in & (scored.score < rules.min_score)
    leading = leading[is_ordinary[leading]][: rules.k - len(best)]
    names = scored.counters.take(pa.array(best)).to_pylist()
    trending = {name: before.get(name, window_ms) for name in names}
    rows = _rows(scored, np.concatenate([best, leading]), trending, provisional)
    return Ranking(window_ms, provisional, trending, rows)


def _within(scored: Scored, rules: TrendRules, regions: InRegions | None, ease: int) -> Flags:
    passes: Flags = scored.score >= rules.min_score / ease
    passes &= scored.hour_count >= rules.min_count / ease
    passes &= _by_members(scored, rules, ease)
    if regions is not None:
        wanted = min(rules.min_regions, max(regions.active, 1))
        passes &= regions.count >= math.ceil(wanted / ease)
    return passes


def _by_members(scored: Scored, rules: TrendRules, ease: int) -> Flags:
    """Enough members beyond the usual ones, and each with not too many events.

    Where it is not known, nobody is refused.
    """
    if scored.extra is None:
        return np.ones(len(scored.counters), dtype=np.bool_)
    refused: Flags = scored.extra.members < rules.min_uniques / ease
    if rules.max_per_member:
        refused |= scored.extra.times > rules.max_per_member * ease
    return ~refused


def _among(counters: pa.Array, names: Mapping[str, int]) -> Flags:
    if not names:
        return np.zeros(len(counters), dtype=np.bool_)
    found = pc.is_in(counters, value_set=pa.array(list(names), counters.type))
    flags: Flags = found.to_numpy(zero_copy_only=False)
    return flags


def _best(scored: Scored, rows: Counts, by: Any, limit: int) -> Counts:
    """The rows with the greatest values, greatest first; of equal ones the first by name."""
    if not len(rows):
        return rows
    if limit < len(rows):
        rows = rows[by[rows] >= np.partition(by[rows], -limit)[-limit]]
    table = pa.table({"by": by[rows], "counter": scored.counters.take(pa.array(rows))})
    order = pc.sort_indices(table, [("by", "descending"), ("counter", "ascending")])
    best: Counts = rows[order.to_numpy()[:limit]]
    return best


def _rows(scored: Scored, rows: Counts, trending: Mapping[str, int], provisional: bool) -> pa.Table:
    """The trending ones come first, as in `trending`; the rest lead."""
    leading = len(rows) - len(trending)
    kinds = np.where(scored.is_new[rows[: len(trending)]], "new", "rising").tolist()
    columns = [
        np.arange(1, len(rows) + 1),
        scored.counters.take(pa.array(rows)),
        scored.observed[rows],
        scored.expected[rows],
        scored.score[rows],
        kinds + ["top"] * leading,
        scored.horizon_minutes[rows],
        [*trending.values()] + [None] * leading,
        [provisional] * len(rows),
    ]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
