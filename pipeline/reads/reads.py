"""Queries of the counts in ClickHouse, with bound parameters: what many commands ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.reads import live
from pipeline.reads.applied_rules import Applied, newest_applied, newest_rules
from pipeline.slots import incarnation_of, spill_counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.rules import CountingRules

RULES_AGE_S = 5.0
"""How old the rules may be by which it is told how a counter is read, and how many partitions are
noted."""

_NO_TABLES = ("UNKNOWN_TABLE", "UNKNOWN_DATABASE")


@dataclass(frozen=True, slots=True)
class FlushedShard:
    """How far a shard is in ClickHouse."""

    shard: int
    flushed_through: int
    flushed_at_ms: int
    checkpoint_through: int
    checkpointed_at_ms: int
    log_ms: int
    rules_version: int = 0
    replica: str = ""
    build: int = 0


class Reads:
    """Queries of one ClickHouse. They block, and raise TryAgainError when it does not answer."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._applied = Applied(None, 0)
        self._applied_s = float("-inf")

    def now_ms(self) -> int:
        """The moment that answers are as of, by this machine's clock."""
        return self._clock.now_ms()

    def monotonic_s(self) -> float:
        """For how old something is."""
        return self._clock.monotonic_s()

    def _allowed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Those that this user may set."""
        known = self._client.server_settings if settings else {}
        return {
            name: value
            for name, value in settings.items()
            if name in known and not known[name].readonly
        }

    def rows(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Sequence[Sequence[Any]]:
        """The rows of a query, with values bound to it, and settings of ClickHouse for it.

        Settings only make it quicker: who may set none asks without.
        """
        try:
            return self._client.query(
                query, dict(parameters or {}), settings=self._allowed(settings or {})
            ).result_rows
        except (ClickHouseError, OSError) as error:
            if any(name in str(error) for name in _NO_TABLES):
                raise TryAgainError(
                    "ClickHouse has no tables of Tally yet: start a worker, or run tally migrate"
                ) from error
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error

    def rules(self) -> CountingRules | None:
        """The rules applied last, as they were known a few seconds ago."""
        return self._newest().rules

    def partitions(self) -> int:
        """How many partitions are noted, as it was known a few seconds ago."""
        return self._newest().partitions

    def _newest(self) -> Applied:
        now_s = self._clock.monotonic_s()
        if now_s - self._applied_s > RULES_AGE_S:
            self._applied, self._applied_s = newest_applied(self), now_s
        return self._applied

    def positions(self, build: int | None = None) -> list[FlushedShard]:
        """How far every shard of a build is, of the current one if none is named."""
        which = live.OWN if build is None else "build = {build:UInt32}"
        rows = self.rows(
            "SELECT shard, flushed_through, toUnixTimestamp64Milli(flushed_at), "  # noqa: S608 - constants
            "checkpoint_through, toUnixTimestamp64Milli(checkpointed_at), "
            "toUnixTimestamp64Milli(log_time), rules_version, build, toString(replica) "
            f"FROM tally.positions WHERE {which}",
            {} if build is None else {"build": build},
        )
        # A few rows for each shard and replica: to plan FINAL and a sort costs more than this.
        shards = groupby(_merged(rows), attrgetter("shard"))
        return [_newest(list(replicas)) for _, replicas in shards]

    def rolled_log_ms(self) -> dict[int, int]:
        """Up to which log time each shard of the current build is in hours and days."""
        rows = self.rows(
            "SELECT shard, toUnixTimestamp64Milli(max(log_time)) FROM tally.rolled_shards "  # noqa: S608 - a constant
            f"WHERE {live.OWN} GROUP BY shard"
        )
        return {int(shard): int(log_ms) for shard, log_ms in rows}

    def refusals(self) -> dict[int, tuple[int, str]]:
        """Why workers would not count a shard on: when that was, and the reason, by shard."""
        rows = self.rows(
            "SELECT shard, toUnixTimestamp64Milli(max(refused_at)), argMax(reason, refused_at) "  # noqa: S608 - a constant
            f"FROM tally.refusals WHERE {live.OWN} GROUP BY shard"
        )
        return {int(shard): (int(at_ms), reason) for shard, at_ms, reason in rows}

    def spill_of(self, counter: str, spilled: Mapping[str, int]) -> str | None:
        """Where cells of the counter's family went past its cap, if that is among what spilled."""
        family = counter.partition(":")[0]
        own, shared = spill_counter(family), spill_counter("")
        if spilled.get(own):
            return own
        # What families share concerns only those that no rule names, which the rules know.
        if spilled.get(shared) and not self._is_named(family):
            return shared
        return None

    def _is_named(self, family: str) -> bool:
        rules = newest_rules(self)
        return rules is not None and family in rules.families


def _merged(rows: Sequence[Sequence[Any]]) -> list[FlushedShard]:
    """One for each shard and replica, by shard: of each value the greatest, as in a merge."""
    owners: dict[tuple[int, str], list[Sequence[int]]] = {}
    for shard, *values, replica in rows:
        owners.setdefault((int(shard), str(replica)), []).append([int(value) for value in values])
    found = []
    for shard, replica in sorted(owners):
        columns = zip(*owners[shard, replica], strict=True)
        through, at_ms, checkpointed, checkpointed_ms, log_ms, version, build = map(max, columns)
        found.append(
            FlushedShard(
                *(shard, through, at_ms, checkpointed, checkpointed_ms, log_ms, version),
                replica=replica,
                build=build,
            )
        )
    return found


def _newest(replicas: Sequence[FlushedShard]) -> FlushedShard:
    """Offsets are those of the log that is counted now, whichever worker's clock was ahead; log
    time is that of all there were."""
    return replace(
        max(replicas, key=lambda one: (incarnation_of(one.replica), one.flushed_at_ms)),
        checkpointed_at_ms=max(one.checkpointed_at_ms for one in replicas),
        log_ms=max(one.log_ms for one in replicas),
        rules_version=max(one.rules_version for one in replicas),
    )
