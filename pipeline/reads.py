"""What people ask of the counts, in SQL with bound parameters, on the views in ClickHouse."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock

Grain = Literal["1m", "1h", "1d"]

_WINDOW_OF: dict[Grain, str] = {
    "1m": "window",
    "1h": "toStartOfHour(window)",
    "1d": "toStartOfDay(window)",
}

# A shard that was flushed longer ago than this may have counts that are not here yet: even an idle
# one is flushed at every checkpoint.
_COMPLETE_WITHIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class WindowCount:
    """A counter's count in one window."""

    window: str
    count: int


@dataclass(frozen=True, slots=True)
class CountAnswer:
    """A counter's value and how it is known. `total` is never below zero; `net` may be.

    `as_of` is when the shard that was flushed longest ago was flushed. `complete` is False when a
    shard has not been flushed for a while, so that counts may be missing.
    """

    counter: str
    total: int
    net: int
    windows: list[WindowCount]
    mode: str
    as_of: str | None
    staleness_ms: int | None
    complete: bool

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FlushedShard:
    """How far a shard is in ClickHouse."""

    shard: int
    flushed_through: int
    flushed_at_ms: int
    checkpoint_through: int
    checkpointed_at_ms: int
    log_ms: int


class Reads:
    """Queries of one ClickHouse. They block, and raise TryAgainError when it does not answer."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def count(
        self,
        counter: str,
        *,
        by: Grain | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        region: str | None = None,
    ) -> CountAnswer:
        """A counter's total, summed over all shards now, and its windows if a grain is asked for.

        Without times and region the total is of everything ever counted. With any of them it is the
        sum of the windows from `since` up to, not including, `until`.
        """
        net = self._net(counter, since, until, region)
        windows = self._windows(counter, by, since, until, region) if by else []
        flushed = [shard.flushed_at_ms for shard in self.positions()]
        now_ms = self._clock.now_ms()
        oldest_ms = min(flushed, default=None)
        staleness_ms = None if oldest_ms is None else max(0, now_ms - oldest_ms)
        return CountAnswer(
            counter=counter,
            total=max(net, 0),
            net=net,
            windows=windows,
            mode="exact",
            as_of=None if oldest_ms is None else _rfc3339(oldest_ms),
            staleness_ms=staleness_ms,
            complete=staleness_ms is not None and staleness_ms < _COMPLETE_WITHIN_MS,
        )

    def top(self, last_ms: int, limit: int) -> list[tuple[str, int]]:
        """The counters that grew most in the last `last_ms`, greatest first."""
        rows = self._rows(
            "SELECT counter, sum(count) AS count FROM tally.counts_1m "
            "WHERE window >= {since:DateTime} GROUP BY counter "
            "ORDER BY count DESC, counter LIMIT {limit:UInt32}",
            {"since": _utc(self._clock.now_ms() - last_ms), "limit": limit},
        )
        return [(counter, int(count)) for counter, count in rows]

    def positions(self) -> list[FlushedShard]:
        """How far every shard of the current build is."""
        rows = self._rows(
            "SELECT shard, argMax(through, at), toUnixTimestamp64Milli(max(at)), "
            "argMax(checkpointed, at), toUnixTimestamp64Milli(max(checkpoint_at)), "
            "toUnixTimestamp64Milli(max(log_at)) FROM ("
            "SELECT shard, replica, max(flushed_through) AS through, max(flushed_at) AS at, "
            "max(checkpoint_through) AS checkpointed, max(checkpointed_at) AS checkpoint_at, "
            "max(log_time) AS log_at FROM tally.positions "
            "WHERE build = (SELECT argMax(build, declaration) FROM tally.builds) "
            "GROUP BY shard, replica) GROUP BY shard ORDER BY shard",
            {},
        )
        return [FlushedShard(*map(int, row)) for row in rows]

    def refusals(self) -> dict[int, tuple[int, str]]:
        """Why workers would not count a shard on: when that was, and the reason, by shard."""
        rows = self._rows(
            "SELECT shard, toUnixTimestamp64Milli(max(refused_at)), argMax(reason, refused_at) "
            "FROM tally.refusals "
            "WHERE build = (SELECT argMax(build, declaration) FROM tally.builds) GROUP BY shard",
            {},
        )
        return {int(shard): (int(at_ms), reason) for shard, at_ms, reason in rows}

    def _net(
        self, counter: str, since: datetime | None, until: datetime | None, region: str | None
    ) -> int:
        if since is None and until is None and region is None:
            query = "SELECT sum(net) FROM tally.totals WHERE counter = {counter:String}"
        else:
            where = _where(since, until, region)
            query = f"SELECT sum(count) FROM {_view(region)} WHERE {where}"  # noqa: S608 - see _where
        [(net,)] = self._rows(query, _parameters(counter, since, until, region))
        return int(net)

    def _windows(
        self,
        counter: str,
        by: Grain,
        since: datetime | None,
        until: datetime | None,
        region: str | None,
    ) -> list[WindowCount]:
        rows = self._rows(
            f"SELECT toUnixTimestamp({_WINDOW_OF[by]}) AS at, sum(count) FROM {_view(region)} "  # noqa: S608 - see _where
            f"WHERE {_where(since, until, region)} GROUP BY at ORDER BY at",
            _parameters(counter, since, until, region),
        )
        return [WindowCount(_rfc3339(at * 1000), int(count)) for at, count in rows]

    def _rows(self, query: str, parameters: dict[str, Any]) -> Sequence[Sequence[Any]]:
        try:
            return self._client.query(query, parameters).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error


def _view(region: str | None) -> str:
    return "tally.counts_1m" if region is None else "tally.counts_by_region_1m"


def _where(since: datetime | None, until: datetime | None, region: str | None) -> str:
    """Conditions with bound parameters: nothing that anybody typed becomes a part of a query."""
    conditions = ["counter = {counter:String}"]
    if since is not None:
        conditions.append("window >= {since:DateTime}")
    if until is not None:
        conditions.append("window < {until:DateTime}")
    if region is not None:
        conditions.append("region = {region:String}")
    return " AND ".join(conditions)


def _parameters(
    counter: str, since: datetime | None, until: datetime | None, region: str | None
) -> dict[str, Any]:
    values = {"counter": counter, "since": since, "until": until, "region": region}
    return {name: value for name, value in values.items() if value is not None}


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _rfc3339(at_ms: int) -> str:
    text = _utc(at_ms).isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds")
    return text.replace("+00:00", "Z")
