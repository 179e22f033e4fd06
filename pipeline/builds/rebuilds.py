"""The table `tally.rebuilds`: how builds began that count the log anew."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.rules import parse_rules
from pipeline.takeover import FROM_THE_LOG, Beginning

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock

_COLUMNS = ["build", "base", "counts_from", "rules", "carried", "begun_at", "note"]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A build that counts the log anew.

    `base` is the build whose slots before `counts_from_ms` are carried over; 0 if the log is
    complete, and none are. `rules` is a rules record's value, or empty. `carried` says that the
    base is there.
    """

    build: int
    base: int = 0
    counts_from_ms: int = 0
    rules: str = ""
    carried: bool = False
    begun_at_ms: int = 0
    note: str = ""

    def beginning(self) -> Beginning:
        """How its shards begin."""
        rules = parse_rules(self.rules.encode()) if self.rules else None
        return Beginning(self.counts_from_ms, rules)


def read_rebuilds(client: Client) -> dict[int, Rebuild]:
    """All of them by build. Blocks; raises TryAgainError."""
    try:
        rows = client.query(
            "SELECT build, base, toUnixTimestamp(counts_from) * 1000, rules, carried, "
            "toUnixTimestamp64Milli(begun_at), note FROM tally.rebuilds FINAL"
        ).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell of rebuilds: {error}") from error
    return {
        int(row[0]): Rebuild(
            int(row[0]), int(row[1]), int(row[2]), row[3], bool(row[4]), int(row[5]), row[6]
        )
        for row in rows
    }


def read_beginning(client: Client, build: int) -> Beginning:
    """How a build's shards begin. Blocks; raises TryAgainError."""
    found = read_rebuilds(client).get(build)
    return found.beginning() if found else FROM_THE_LOG


def write_rebuild(client: Client, rebuild: Rebuild, clock: Clock) -> None:
    """Store it, in place of what was known of the build. Blocks; raises TryAgainError."""
    row = [
        rebuild.build,
        rebuild.base,
        datetime.fromtimestamp(rebuild.counts_from_ms / 1000, UTC),
        rebuild.rules,
        int(rebuild.carried),
        datetime.fromtimestamp((rebuild.begun_at_ms or clock.now_ms()) / 1000, UTC),
        rebuild.note,
    ]
    try:
        client.insert("rebuilds", [row], column_names=_COLUMNS, database="tally")
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not take the rebuild: {error}") from error
