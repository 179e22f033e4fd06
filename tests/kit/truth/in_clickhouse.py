"""The numbers that ClickHouse has, asked over plain HTTP, beside those that must be there."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.kit.registers import REGISTER_BITS, registers_of
from tests.kit.truth import letters, strict
from tests.kit.truth.differences import (
    Difference,
    compared,
    compared_rankings,
    compared_sizes,
)
from tests.kit.truth.expected import ALL, EVER, GRAINS_S, Expected
from tests.kit.truth.ledger import Decisions
from tests.kit.truth.letters import Letter, LetterPlace
from tests.kit.truth.record import Refusable
from tests.kit.truth.sketched import Sketched

TIMEOUT_S = 180.0
"""On a busy machine an answer may take long; that is no difference."""

MINUTE_S = 60
CLOCK_TRIES = 10
LAST_S = {"top_last_hour": 3_600, "top_last_day": 86_400}
"""Views of the time up to now, and how long that is."""

_LIVE = "build IN (SELECT build FROM tally.live_builds)"


class ClickHouse:
    """Asks one server. Raises httpx.HTTPError when it does not answer as it should."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT_S)

    def rows(self, query: str) -> list[list[Any]]:
        """All rows of the answer."""
        answer = self._client.post(
            "/",
            params={"output_format_json_quote_64bit_integers": "0"},
            content=f"{query} FORMAT JSONCompactEachRow",
        )
        if answer.status_code != httpx.codes.OK:
            raise httpx.HTTPError(f"{query}: {answer.status_code} {answer.text[:500]}")
        return [json.loads(line) for line in answer.text.splitlines() if line]

    def close(self) -> None:
        self._client.close()

    def counts(self, grain: str) -> dict[Any, int]:
        """By counter, region and window, `*` for all regions."""
        columns = "toUnixTimestamp(window), toInt64(count)"
        apart = f"SELECT counter, toString(region), {columns} FROM tally.counts_by_region_{grain}"
        together = f"SELECT counter, '{ALL}', {columns} FROM tally.counts_{grain}"
        return self._keyed([*self.rows(apart), *self.rows(together)])

    def totals(self) -> dict[Any, int]:
        return self._keyed(self.rows("SELECT counter, toInt64(net) FROM tally.totals"))

    def uniques(self, grain: str) -> dict[Any, tuple[int, int, int]]:
        """Estimates with their bounds, by the same places."""
        columns = "toUnixTimestamp(window), round(uniques), round(low), round(high)"
        apart = f"SELECT counter, toString(region), {columns} FROM tally.uniques_by_region_{grain}"
        together = f"SELECT counter, '{ALL}', {columns} FROM tally.uniques_{grain}"
        rows = [*self.rows(apart), *self.rows(together)]
        return {tuple(key): (uniques, low, high) for *key, uniques, low, high in rows}

    def registers(self, grain: str) -> dict[Any, int]:
        """The rank of each register, by counter, region, window and register."""
        return self._keyed(
            self.rows(
                "SELECT counter, place, start, register, max(rank) FROM (SELECT counter, "
                "toString(region) AS place, toUnixTimestamp(window) AS start, "
                "arrayJoin(registers) AS pair, pair.1 AS register, pair.2 AS rank "
                f"FROM tally.distinct_{grain} WHERE {_LIVE} AND precision = {REGISTER_BITS}) "
                "GROUP BY counter, place, start, register"
            )
        )

    def rankings(self, view: str) -> dict[Any, list[tuple[str, int]]]:
        """Counters with their counts in the order of their ranks."""
        window = EVER if view in LAST_S else "toUnixTimestamp(window)"
        rows = self.rows(
            f"SELECT toString(family), region, {window} AS start, rank, counter, "
            f"toInt64(count) FROM tally.{view} ORDER BY ALL"
        )
        found: dict[Any, list[tuple[str, int]]] = defaultdict(list)
        for family, region, start_s, rank, counter, count in rows:
            found[family, region, start_s].append((counter, count))
            assert len(found[family, region, start_s]) == rank, f"no rank of its own: {counter}"
        return dict(found)

    def rankings_now(self, view: str) -> tuple[int, dict[Any, list[tuple[str, int]]]]:
        """What the clock was, and what a view tells that goes by its minute.

        Asks again where a minute began meanwhile; raises AssertionError where one always does.
        """
        for _ in range(CLOCK_TRIES):
            before_s, found, after_s = self._now_s(), self.rankings(view), self._now_s()
            if before_s // MINUTE_S == after_s // MINUTE_S:
                return after_s, found
        raise AssertionError(f"{view} was never answered within a minute of the clock")

    def _now_s(self) -> int:
        [[now_s]] = self.rows("SELECT toUnixTimestamp(now())")
        return int(now_s)

    def buckets(self, grain: str) -> dict[Any, int]:
        """What each bucket of the sketches holds, by family, region, window and bucket."""
        return self._keyed(
            self.rows(
                "SELECT toString(family), toString(region), toUnixTimestamp(window), bucket, "
                f"toInt64(sum(p) - sum(n)) FROM tally.merged_frequency_{grain} WHERE {_LIVE} "
                "GROUP BY family, region, window, bucket"
            )
        )

    def strict_totals(self) -> dict[Any, int]:
        return self._keyed(self.rows("SELECT counter, value FROM tally.strict_totals"))

    def letters(self) -> list[tuple[LetterPlace, Letter]]:
        """What was refused, by its place, with its beginning."""
        query = (
            "SELECT shard, offset, row, toUnixTimestamp64Milli(log_time), sample, bytes, reason "
            f"FROM tally.dead_letters FINAL WHERE {_LIVE}"
        )
        return [
            (LetterPlace(*place), Letter(sample.encode(), bytes_total, reason))
            for *place, sample, bytes_total, reason in self.rows(query)
        ]

    def _keyed(self, rows: list[list[Any]]) -> dict[Any, int]:
        found = {tuple(key): value for *key, value in rows}
        assert len(found) == len(rows), "a view has two rows of one key"
        return found


def differences(
    url: str,
    expected: Expected,
    refused: Mapping[LetterPlace, Refusable],
    sketched: Sketched,
    decisions: Decisions,
) -> Iterator[Difference]:
    """All that is not what it must be in ClickHouse."""
    server = ClickHouse(url)
    try:
        yield from compared("clickhouse totals", expected.totals(), server.totals())
        for grain in GRAINS_S:
            found = server.counts(grain)
            yield from compared(f"clickhouse counts_{grain}", expected.counts(grain), found)
        yield from _of_rankings(server, expected)
        for grain in GRAINS_S:
            members = expected.members(grain)
            where = f"clickhouse uniques_{grain}"
            yield from compared_sizes(where, members, server.uniques(grain))
            registers = server.registers(grain)
            yield from compared(f"clickhouse distinct_{grain}", _registers(members), registers)
        for grain in GRAINS_S:
            where = f"clickhouse merged_frequency_{grain}"
            yield from compared(where, sketched.buckets(grain), server.buckets(grain))
        where = "clickhouse strict_totals"
        yield from compared(where, strict.totals(decisions), server.strict_totals())
        yield from letters.in_table(refused, server.letters())
    finally:
        server.close()


def _of_rankings(server: ClickHouse, expected: Expected) -> Iterator[Difference]:
    """Of every window, of the newest of each family, and of the time up to now."""
    for grain in GRAINS_S:
        found = server.rankings(view := f"top_by_window_{grain}")
        yield from compared_rankings(f"clickhouse {view}", _listed(expected.rankings(grain)), found)
        now_s, found = server.rankings_now(view := f"top_{grain}")
        wanted = _listed(expected.newest_rankings(grain, now_s))
        yield from compared_rankings(f"clickhouse {view}", wanted, found)
    for view, last_s in LAST_S.items():
        now_s, found = server.rankings_now(view)
        wanted = _listed(expected.last_rankings(last_s, now_s))
        yield from compared_rankings(f"clickhouse {view}", wanted, found)


def _listed(rankings: Mapping[Any, list[tuple[str, int]]]) -> dict[Any, list[tuple[str, int]]]:
    """Where nothing has a place there is no row."""
    return {key: ranking for key, ranking in rankings.items() if ranking}


def _registers(members: Mapping[Any, set[str]]) -> dict[Any, int]:
    return {
        (counter, region, start_s, register): rank
        for (counter, region, start_s), those in members.items()
        if region != ALL
        for register, rank in registers_of(those).items()
    }
