"""The table `tally.rebuilds`: how builds began that count the log anew."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import OperatorError, TryAgainError
from pipeline.rules import parse_rules
from pipeline.takeover import FROM_THE_LOG, Beginning

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock

_COLUMNS = [
    "build",
    "base",
    "counts_from",
    "rules",
    "starts",
    "state",
    "begun_at",
    "note",
    "incarnations",
]


class State(IntEnum):
    """How far a rebuild is, as far as that is not in its positions."""

    BEGUN = 0
    CARRIED = 1
    DROPPED = 2


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A build that counts the log anew.

    `base` is the build whose slots before `counts_from_ms` are carried over; 0 if the log is
    complete, and none are. `rules` is a rules record's value, or empty. `starts` are the offsets
    where the log began, `incarnations` those under which the live build counted it.
    """

    build: int
    base: int = 0
    counts_from_ms: int = 0
    rules: str = ""
    starts: tuple[int, ...] = ()
    state: State = State.BEGUN
    begun_at_ms: int = 0
    note: str = ""
    incarnations: tuple[int, ...] = ()

    def beginning(self) -> Beginning:
        """How its shards begin."""
        rules = parse_rules(self.rules.encode()) if self.rules else None
        return Beginning(self.counts_from_ms, rules, self.starts, self.incarnations)

    @property
    def lacks_base(self) -> bool:
        """Whether earlier days are not there yet."""
        return bool(self.base) and self.state == State.BEGUN


def read_rebuilds(client: Client) -> dict[int, Rebuild]:
    """All of them by build, those that were dropped, too. Blocks; raises TryAgainError."""
    try:
        rows = client.query(
            "SELECT build, base, toUnixTimestamp(counts_from) * 1000, rules, starts, state, "
            "toUnixTimestamp64Milli(begun_at), note, incarnations FROM tally.rebuilds FINAL"
        ).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell of rebuilds: {error}") from error
    return {
        int(row[0]): Rebuild(
            int(row[0]),
            int(row[1]),
            int(row[2]),
            row[3],
            tuple(map(int, row[4])),
            State(row[5]),
            int(row[6]),
            row[7],
            tuple(map(int, row[8])),
        )
        for row in rows
    }


def declared_builds(client: Client) -> set[int]:
    """Builds of this cluster that are live, or ever were. Blocks; raises TryAgainError."""
    try:
        rows = client.query(
            "SELECT DISTINCT build FROM tally.builds WHERE cluster = ''"
        ).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell of builds: {error}") from error
    return {int(build) for (build,) in rows}


def read_beginning(client: Client, build: int) -> Beginning:
    """How a build's shards begin. Blocks; raises TryAgainError, and OperatorError if the build was
    dropped."""
    found = read_rebuilds(client).get(build)
    if found is not None and found.state == State.DROPPED:
        raise OperatorError(f"build {build} was dropped: unset TALLY_BUILD to count the live one")
    return found.beginning() if found else FROM_THE_LOG


def write_rebuild(client: Client, rebuild: Rebuild, clock: Clock) -> None:
    """Store it, in place of what was known of the build. Blocks; raises TryAgainError."""
    row = [
        rebuild.build,
        rebuild.base,
        datetime.fromtimestamp(rebuild.counts_from_ms / 1000, UTC),
        rebuild.rules,
        list(rebuild.starts),
        int(rebuild.state),
        datetime.fromtimestamp((rebuild.begun_at_ms or clock.now_ms()) / 1000, UTC),
        rebuild.note,
        list(rebuild.incarnations),
    ]
    try:
        client.insert("rebuilds", [row], column_names=_COLUMNS, database="tally")
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not take the rebuild: {error}") from error
