"""Reads the windows of a plan and sums them: for some counters, or shard by shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.reads import adjusted, cell_sql
from pipeline.reads.adjusted import Adjusted
from pipeline.reads.spans import LIFE
from pipeline.reads.taking import Taken, Values, Window, take
from pipeline.rules import EARLINESS_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pipeline.reads.reads import Reads
    from pipeline.reads.spans import Plan

ATTEMPTS_MAX = 3
"""ClickHouse reads an hour and its minutes at slightly different moments. What is counted between
them looks as if minutes were gone, but not again and again; what is gone stays gone."""


@dataclass(slots=True)
class Sums:
    """What was summed under one key. `life` is the lifetime total, None where there is none.

    Neither that nor the windows have adjustments in them: these are beside. `latest` is by shard
    the last offset of what is in it; None where that was not read.
    """

    life: Values | None = None
    taken: Taken = field(default_factory=Taken)
    adjusted: Adjusted = field(default_factory=Adjusted)
    latest: dict[int, int] | None = None


def read_sums(
    reads: Reads,
    plan: Plan,
    counters: Sequence[str],
    *,
    key: str = "counter",
    cached: bool = False,
    region: str | None = None,
    everywhere: Collection[str] = (),
) -> dict[tuple[Any, ...], Sums]:
    """The sums by `key`, columns of the cells; counters that are `everywhere` are of all regions.

    All is from one query, so that totals and windows agree. Blocks; raises TryAgainError.
    """
    parameters: dict[str, Any] = {"counters": list(counters)}
    where = ""
    if region is not None:
        where = "WHERE region = {region:String} OR counter IN {everywhere:Array(String)} "
        parameters |= {"region": region, "everywhere": list(everywhere)}
    source = cell_sql.rolled_up_cells(plan.pieces) if cached else cell_sql.cells(plan.pieces)
    query = (
        "SELECT grain, toUnixTimestamp(window) AS at, sum(p), sum(n), sum(duplicates), "  # noqa: S608 - see cell_sql
        f"{key} FROM ({source} UNION ALL {adjusted.beside_cells()}) {where}"
        f"GROUP BY grain, at, {key}"
    )
    for _ in range(ATTEMPTS_MAX):
        sums = _sums(plan, reads.rows(query, parameters))
        if not any(found.taken.coarse for found in sums.values()):
            break
    return sums


def _sums(plan: Plan, rows: Sequence[Sequence[Any]]) -> dict[tuple[Any, ...], Sums]:
    lives: dict[tuple[Any, ...], Values] = {}
    windows: dict[tuple[Any, ...], dict[Window, Values]] = {}
    adjustments: dict[tuple[Any, ...], Adjusted] = {}
    for grain, at_s, p, n, duplicates, *names in rows:
        values = (int(p), int(n), int(duplicates))
        if grain.startswith(adjusted.MARK):
            found = adjustments.setdefault(tuple(names), Adjusted())
            about = grain.removeprefix(adjusted.MARK) or None
            found.add(about, int(at_s) * 1000, int(p) - int(n), int(duplicates))
        elif grain == "life":
            lives[tuple(names)] = values
        else:
            windows.setdefault(tuple(names), {})[grain, int(at_s) * 1000] = values
    return {
        key: Sums(
            lives.get(key), take(plan, windows.get(key, {})), adjustments.get(key, Adjusted())
        )
        for key in {*lives, *windows, *adjustments}
    }


def forgotten_ms(reads: Reads, plan: Plan, counters: Sequence[str]) -> int:
    """Before when days of the counters are gone, all or some; 0 if none that the plan has to read.

    To be asked after the sums are read, lest days go in between. Blocks; raises TryAgainError.
    """
    if plan.pieces == (LIFE,) or (plan.span and plan.span.since_ms == plan.split_ms):
        return 0
    parameters = {"counters": list(counters)}
    # Most counters have no month that was folded, which is known at a tenth of the cost.
    if not reads.rows(f"{cell_sql.FOLDED} LIMIT 1", parameters):
        return 0
    [(end_s,)] = reads.rows(cell_sql.FORGOTTEN, parameters)
    # A window may be ahead of its log time by the earliness.
    return int(end_s) * 1000 + EARLINESS_MS if end_s else 0
