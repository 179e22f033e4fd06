"""Reads from ClickHouse what trends are scored by. Blocks; see trend_sql for what is on time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.clickhouse import NOW_MS
from pipeline.distinct import TREND_PRECISION
from pipeline.rules import EARLINESS_MS
from pipeline.trends import trend_sql
from pipeline.trends.candidates import COUNT_MAX, DAYS, HOUR_MINUTES, RECENT_MINUTES, Candidates
from pipeline.trends.members import Members
from sketches.frequency import ROWS as SKETCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

    from pipeline.rules import CountingRules
    from pipeline.trends.candidates import Counts, Flags

ALL_REGIONS = "*"
MINUTE_S, DAY_S = 60, 86_400
_EARLY_S = EARLINESS_MS // 1000 + MINUTE_S
_DAY_MINUTES = DAY_S // MINUTE_S

CANDIDATES_MAX = 2_000
"""How many counters of a family are looked at, those with the greatest counts of the last hour."""

SKETCHED_MAX = 500
"""As CANDIDATES_MAX, of those that have no cells, by the summaries of the heaviest."""

REGIONS_MAX, FAMILIES_MAX = 32, 200
"""How many regions of a family, and how many families, are ranked: those with the most counts in
the last hour. What happens in other regions is a part of `*`."""

MEMBERS_OF_MINUTES = HOUR_MINUTES + 1
_NAMES_AT_ONCE = 50  # A name has at most 256 bytes, and all of them stand in one URL.

Trending = dict[tuple[str, str], dict[str, int]]
"""Who trends, by family and region, with the window each entered in, in milliseconds."""


MembersFound = dict[tuple[str, str], tuple[float, float, float]]
"""Distinct members by counter and region: see `TrendReads.members`."""


@dataclass(frozen=True, slots=True)
class Region:
    """What was counted in one region, or in all of them, of the counters that occur there."""

    names: list[str]
    minutes: Counts
    days: Counts

    def candidates(self, known_minutes: int, known_days: Flags) -> Candidates:
        """As they are scored, without members."""
        names = pa.array(self.names, pa.string())
        return Candidates(names, self.minutes, self.days, known_minutes, known_days)


class TrendReads:
    """One build as its trends see it. Methods raise ClickHouse's own errors."""

    def __init__(self, client: Client, build: int, replica: str) -> None:
        self._client = client
        self._build = build
        self._replica = replica

    def flushed_ms(self, partitions: int) -> int | None:
        """The log time up to which every partition is in ClickHouse; None if one is not there."""
        [(shards, log_ms)] = self._rows(
            trend_sql.FLUSHED, replica=self._replica, partitions=partitions
        )
        return int(log_ms) if shards == partitions else None

    def scored_s(self) -> int:
        """The last minute that was scored; 0 if none was."""
        return int(self._rows(trend_sql.SCORED)[0][0])

    def trending(self, window_s: int) -> Trending:
        """Who trended in a minute that was scored."""
        found: Trending = defaultdict(dict)
        for family, region, counter, entered_s in self._rows(trend_sql.BEFORE, window_s=window_s):
            found[family, region][counter] = entered_s * 1000
        return found

    def first_s(self, families: Sequence[str]) -> dict[str, int]:
        """Since when each of the families is counted."""
        known = {name: int(first) for name, first in self._rows(trend_sql.KNOWN_FAMILIES)}
        unknown = [name for name in families if name not in known]
        for start in range(0, len(unknown), _NAMES_AT_ONCE):
            part = unknown[start : start + _NAMES_AT_ONCE]
            rows = self._rows(trend_sql.FIRST_WINDOWS, families=part)
            known |= {name: int(first) for name, first in rows}
        return {name: known[name] for name in families if name in known}

    def families(
        self, window_s: int, before_s: int, rules: CountingRules
    ) -> dict[str, dict[str, Region]]:
        """The candidates of every family whose trends are wanted, in the minute's own right."""
        named = {name: _least(rules, name) for name in rules.families}
        times = {
            "window_s": window_s,
            "before_s": before_s,
            "count_max": COUNT_MAX,
            "recent_s": RECENT_MINUTES * MINUTE_S,
            "days_s": DAYS * DAY_S + HOUR_MINUTES * MINUTE_S,
            "early_s": _EARLY_S,
        }
        exact = self._table(
            trend_sql.CANDIDATES,
            families=[*named, ":"],  # No family has this name; a list may not be empty.
            least=[*named.values(), 0],
            least_of_others=_least(rules, ""),
            candidates=CANDIDATES_MAX,
            **times,
        )
        sketched = self._table(
            trend_sql.SKETCHED_CANDIDATES, sketched=SKETCHED_MAX, rows=SKETCH_ROWS, **times
        )
        rows = pa.concat_tables([exact, sketched.cast(exact.schema)])
        of = rows["name"].combine_chunks()
        recent = rows.filter(pc.less(rows["age"], HOUR_MINUTES))
        busiest = _busiest(recent["name"], recent["count"], FAMILIES_MAX)
        return {name: _regions(rows.filter(pc.equal(of, name))) for name in sorted(busiest)}

    def now_ms(self) -> int:
        """By ClickHouse's clock."""
        return int(self._rows(NOW_MS)[0][0])

    def members(self, window_s: int, names: Sequence[str]) -> MembersFound:
        """Distinct members of counters by region and `*`.

        Of the last MEMBERS_OF_MINUTES, of the rest of the recent minutes, and of the hour a day ago
        that ends at the same time; of minutes of log time.
        """
        found: MembersFound = {}
        for start in range(0, len(names), _NAMES_AT_ONCE):
            rows = self._rows(
                trend_sql.MEMBERS,
                window_s=window_s,
                counters=list(names[start : start + _NAMES_AT_ONCE]),
                recent=MEMBERS_OF_MINUTES - 1,
                older=RECENT_MINUTES,
                precision=TREND_PRECISION,
            )
            found |= {(counter, region): (a, b, c) for counter, region, a, b, c in rows}
        return found

    def _table(self, statement: str, **parameters: Any) -> pa.Table:
        return self._client.query_arrow(
            statement, parameters={"build": self._build, **parameters}, use_strings=True
        )

    def _rows(self, statement: str, **parameters: Any) -> Sequence[Sequence[Any]]:
        found = self._client.query(statement, parameters={"build": self._build, **parameters})
        return found.result_rows


def members_of(candidates: Candidates, region: str, found: MembersFound) -> Members:
    """Who did it, as far as it was found; not known of the others."""
    names = candidates.counters.to_pylist()
    unknown = (np.nan, np.nan, np.nan)
    rows = np.array([found.get((name, region), unknown) for name in names], np.float64)
    uniques, older, yesterday = rows.reshape(-1, 3).T
    older_count = candidates.minutes[:, : RECENT_MINUTES - MEMBERS_OF_MINUTES].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_member = np.where(yesterday > 0, candidates.days[:, 0] / yesterday, older_count / older)
    return Members(uniques, np.where(per_member > 0, per_member, np.nan), MEMBERS_OF_MINUTES)


def known_days(window_s: int, first_s: int, kept_ms: int | None) -> Flags:
    """Whether the hour of each earlier day was counted as a whole, and is not past its retention.

    What is past it may be gone or not: so it is not looked at in either case.
    """
    began_s = [window_s - day * DAY_S - (HOUR_MINUTES - 1) * MINUTE_S for day in range(1, DAYS + 1)]
    oldest_s = first_s if kept_ms is None else max(first_s, window_s - kept_ms // 1000)
    return np.array(began_s) >= oldest_s


def _least(rules: CountingRules, family: str) -> int:
    """What makes a counter a candidate; 0 where the family's trends are not wanted.

    Half of what lets it in, since with half it stays.
    """
    trends = rules.families.get(family, rules.default).trends
    return (trends.min_count + 1) // 2 if trends.enabled else 0


def _busiest(names: pa.ChunkedArray, counts: pa.ChunkedArray, limit: int) -> list[str]:
    """The names with the greatest sums; of equal ones the first."""
    sums = pa.table({"name": names, "count": counts}).group_by("name").aggregate([("count", "sum")])
    order = [("count_sum", "descending"), ("name", "ascending")]
    found: list[str] = sums.sort_by(order).slice(0, limit)["name"].to_pylist()
    return found


def _regions(rows: pa.Table) -> dict[str, Region]:
    """The rows of one family by region, those that are ranked; and all of them together last."""
    recent = rows.filter(pc.less(rows["age"], HOUR_MINUTES))
    busiest = _busiest(recent["place"], recent["count"], REGIONS_MAX)
    places = rows["place"]
    found = {name: _region(rows.filter(pc.equal(places, name))) for name in sorted(busiest)}
    return {**found, ALL_REGIONS: _region(rows)}


def _region(rows: pa.Table) -> Region:
    counters = rows["counter"].combine_chunks().dictionary_encode()
    number = counters.indices.to_numpy()
    age, count = rows["age"].to_numpy().astype(np.int64), rows["count"].to_numpy()
    minutes = np.zeros((len(counters.dictionary), RECENT_MINUTES), np.int64)
    days = np.zeros((len(counters.dictionary), DAYS), np.int64)
    recent = age < RECENT_MINUTES
    # What a counter has in cells and what of it spilled are added up, and for `*` all regions.
    np.add.at(minutes, (number[recent], RECENT_MINUTES - 1 - age[recent]), count[recent])
    np.add.at(days, (number[~recent], age[~recent] // _DAY_MINUTES - 1), count[~recent])
    return Region(counters.dictionary.to_pylist(), minutes, days)
