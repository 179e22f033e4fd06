"""Scores every minute that is over, in order, and tells who began and who ceased to trend.

Anybody may do it at any moment, twice at once or after having been replaced: the same counts give
the same scores and the same events with the same ids. One leader does it so that it is done once.

A minute is over when every partition's log time is past it and the one after: then nothing that was
on time can be missing. Events are confirmed before the scores, and these before the minute is taken
for scored, so a pass that dies in between is repeated by the next.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline.errors import OperatorError, TryAgainError
from pipeline.trends import trend_sql
from pipeline.trends.candidates import RECENT_MINUTES
from pipeline.trends.ranking import LEADERS, SCHEMA, Ranking, in_regions, rank
from pipeline.trends.reading import ALL_REGIONS, MINUTE_S, TrendReads, known_days, members_of
from pipeline.trends.score import score
from pipeline.trends.transitions import transitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.rules import CountingRules, TrendRules
    from pipeline.trends.candidates import Candidates
    from pipeline.trends.reading import MembersFound, Region, Trending
    from pipeline.trends.score import Scored
    from pipeline.trends.transitions import Transition
    from schemas.families import Families

log = logging.getLogger(__name__)

WINDOWS_AT_ONCE = 30
"""How many minutes one pass scores at most."""

BEHIND_MINUTES_MAX = 24 * 60
"""Who is further behind goes on with the last minute that is over: what was, is no news."""

_SETTINGS = {"async_insert": 0}


class TrendEvents(Protocol):
    """Sends transitions, and returns when Kafka has confirmed; raises TryAgainError."""

    def __call__(self, found: Sequence[Transition]) -> None: ...


@dataclass(frozen=True, slots=True)
class TrendsScored:
    """What a pass did: how many minutes it scored, who came or went, and how long it took."""

    windows: int
    transitions: int
    took_s: float


class TrendScoring:
    """The trends of one build. Its methods block."""

    def __init__(
        self,
        client: Client,
        build: int,
        replica: str,
        retention: Families,
        *,
        send: TrendEvents,
        clock: Clock,
    ) -> None:
        self._client = client
        self._build = build
        self._reads = TrendReads(client, build, replica)
        self._retention = retention
        self._send = send
        self._clock = clock

    def run(self, partitions: int, rules: CountingRules) -> TrendsScored:
        """Score what is over and not scored yet, then the minute that is not over.

        `partitions` is what Kafka reports. Raises TryAgainError when a server is away, and
        OperatorError when ClickHouse refuses.
        """
        began_s = self._clock.monotonic_s()
        try:
            windows, found = self._run(partitions, rules)
        except DatabaseError as error:
            raise OperatorError(f"ClickHouse refuses what trends need: {error}") from error
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse does not answer for trends: {error}") from error
        return TrendsScored(windows, found, self._clock.monotonic_s() - began_s)

    def _run(self, partitions: int, rules: CountingRules) -> tuple[int, int]:
        flushed_ms = self._reads.flushed_ms(partitions)
        if flushed_ms is None:
            return 0, 0
        open_s = flushed_ms // 1000 // MINUTE_S * MINUTE_S
        over_s = open_s - trend_sql.ON_TIME_S - MINUTE_S
        scored_s = self._reads.scored_s()
        if scored_s < over_s - BEHIND_MINUTES_MAX * MINUTE_S:
            scored_s, before_s = over_s - MINUTE_S, scored_s
        else:
            before_s = scored_s
        before = self._reads.trending(before_s)
        windows = found = 0
        while scored_s < over_s and windows < WINDOWS_AT_ONCE:
            scored_s += MINUTE_S
            before, moved = self._score(scored_s, before_s, before, rules)
            before_s = scored_s
            windows, found = windows + 1, found + moved
        if scored_s == over_s:
            self._score_provisionally(open_s, before_s, before, rules)
        return windows, found

    def _score(
        self, window_s: int, before_s: int, before: Trending, rules: CountingRules
    ) -> tuple[Trending, int]:
        rankings = dict(self._rankings(window_s, before_s, before, rules))
        moved = [
            transition
            for family, region in sorted({*rankings, *before})
            for transition in transitions(
                family,
                region,
                before.get((family, region), {}),
                rankings.get((family, region)) or _nobody(window_s),
            )
        ]
        if moved:
            self._send(moved)
        moment_ms = self._insert("tally.trend_scores", window_s, rankings)
        self._confirm_families([family for family, _ in rankings])
        self._command(trend_sql.CONFIRM_WINDOW, window_s=window_s, moment_ms=moment_ms)
        trending = {place: one.trending for place, one in rankings.items() if one.trending}
        return trending, len(moved)

    def _score_provisionally(
        self, window_s: int, before_s: int, before: Trending, rules: CountingRules
    ) -> None:
        found = self._rankings(window_s, before_s, before, rules, provisional=True)
        moment_ms = self._insert("tally.trend_provisional", window_s, dict(found))
        self._command(trend_sql.CONFIRM_OPEN, window_s=window_s, moment_ms=moment_ms)

    def _rankings(
        self,
        window_s: int,
        before_s: int,
        before: Trending,
        rules: CountingRules,
        *,
        provisional: bool = False,
    ) -> Iterator[tuple[tuple[str, str], Ranking]]:
        """The ranking of every region of every family, and of all regions together."""
        families = [
            family for family in self._families(window_s, before_s, rules) if family.gates.enabled
        ]
        matters = {name for family in families for name in family.that_matter(before)}
        members = self._reads.members(window_s, sorted(matters))
        for family in families:
            yield from family.ranked(members, before, provisional=provisional)

    def _families(self, window_s: int, before_s: int, rules: CountingRules) -> Iterator[_Family]:
        found = self._reads.families(window_s, before_s, rules)
        firsts_s = self._reads.first_s(list(found))
        for name, first_s in firsts_s.items():
            kept_ms = self._retention.for_counter(f"{name}:").retention.minute_ms
            gates = rules.families.get(name, rules.default).trends
            yield _Family(name, found[name], window_s, first_s, kept_ms, gates)

    def _insert(
        self, table: str, window_s: int, rankings: Mapping[tuple[str, str], Ranking]
    ) -> int:
        """Returns the moment by which all rows of this ranking are known, in milliseconds."""
        moment_ms = self._reads.now_ms()
        parts = [_rows(place, found, window_s, self._build) for place, found in rankings.items()]
        parts = [part for part in parts if part.num_rows]
        if parts:
            rows = pa.concat_tables(parts)
            moments = pa.array(np.full(rows.num_rows, moment_ms)).cast(pa.timestamp("ms", "UTC"))
            rows = rows.append_column("scored_at", moments)
            self._client.insert_arrow(table, rows, settings=_SETTINGS)
        return moment_ms

    def _confirm_families(self, families: Sequence[str]) -> None:
        if firsts_s := self._reads.first_s(sorted(set(families))):
            self._command(
                trend_sql.CONFIRM_FAMILIES,
                families=list(firsts_s),
                firsts_s=list(firsts_s.values()),
            )

    def _command(self, statement: str, **parameters: object) -> None:
        self._client.command(
            statement, parameters={"build": self._build, **parameters}, settings=_SETTINGS
        )


@dataclass(frozen=True)
class _Family:
    """One family in one minute."""

    name: str
    regions: Mapping[str, Region]
    window_s: int
    first_s: int
    kept_ms: int | None
    gates: TrendRules

    @cached_property
    def candidates(self) -> dict[str, Candidates]:
        """Of every active region, and of `*` last."""
        counted = min((self.window_s - self.first_s) // MINUTE_S + 1, RECENT_MINUTES)
        days = known_days(self.window_s, self.first_s, self.kept_ms)
        return {
            region: self.regions[region].candidates(max(counted, 1), days)
            for region in self.regions
        }

    def that_matter(self, before: Trending) -> set[str]:
        """Of which counters it may decide who did it."""
        if not self.gates.by_members:
            return set()
        return {
            name
            for region, one in self.candidates.items()
            for name in _that_matter(score(one), self.gates, before.get((self.name, region), {}))
        }

    def ranked(
        self, members: MembersFound, before: Trending, *, provisional: bool
    ) -> Iterator[tuple[tuple[str, str], Ranking]]:
        """The ranking of every region, and of `*` by who trends in them."""
        trending: dict[str, dict[str, int]] = {}
        for region, found in self.candidates.items():
            who = members_of(found, region, members) if self.gates.by_members else None
            one = replace(found, members=who)
            ranking = rank(
                score(one),
                self.gates,
                before.get((self.name, region), {}),
                window_ms=self.window_s * 1000,
                provisional=provisional,
                regions=in_regions(one.counters, trending) if region == ALL_REGIONS else None,
            )
            trending[region] = ranking.trending
            yield (self.name, region), ranking


def _that_matter(scored: Scored, gates: TrendRules, before: Mapping[str, int]) -> set[str]:
    """Who may trend or lead, if its members let it."""
    may = scored.score >= gates.min_score / 2
    leading = np.argsort(-scored.hour_count, kind="stable")[:LEADERS]
    may[leading] = True
    return {*scored.counters.filter(pa.array(may)).to_pylist(), *before}


def _nobody(window_s: int) -> Ranking:
    """Of a family of which nothing was counted lately: whoever trended leaves."""
    return Ranking(window_s * 1000, provisional=False, trending={}, rows=SCHEMA.empty_table())


def _rows(place: tuple[str, str], ranking: Ranking, window_s: int, build: int) -> pa.Table:
    """A ranking as rows of its table."""
    rows, size = ranking.rows, ranking.rows.num_rows
    family, region = place
    return pa.table(
        {
            "build": pa.array(np.full(size, build, np.uint32)),
            "family": pa.array([family] * size, pa.string()),
            "region": pa.array([region] * size, pa.string()),
            "window": pa.array(np.full(size, window_s)).cast(pa.timestamp("s", "UTC")),
            "counter": rows["counter"],
            "rank": rows["rank"].cast(pa.uint32()),
            "observed": rows["observed"],
            "expected": rows["expected"],
            "score": rows["score"],
            "kind": rows["kind"],
            "horizon_minutes": rows["horizon_minutes"].cast(pa.uint16()),
            "entered": pc.divide(rows["entered_ms"], 1000).cast(pa.timestamp("s", "UTC")),
        }
    )
