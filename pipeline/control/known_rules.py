"""Which counting rules are known: those in the log, and those that shards count by. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.control.shard_plan import planned_rules
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.rules import CountingRules, parse_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from schemas.addresses import KafkaAddress

_TABLE = "tally.rules"

# Rows of other clusters may be here, too: they count another log, by rules of their own. The values
# are bound parameters.
_OURS = "(replica = {replica:String} OR startsWith(replica, {incarnations:String}))"


@dataclass(frozen=True, slots=True)
class AppliedRules:
    """Rules that were written to every partition, by whom and when."""

    rules: CountingRules
    applied_at_ms: int
    note: str


@dataclass(frozen=True, slots=True)
class KnownRules:
    """What the servers know of rules.

    `planned` are the last that somebody began to apply, `applied` the last with which that was
    finished. `counted` has the version that each shard of this build counts by, as far as it is
    flushed; `greatest_version` is of any rules that anybody has seen.
    """

    applied: AppliedRules | None
    planned: CountingRules | None
    counted: Mapping[int, int]
    greatest_version: int

    @property
    def newest(self) -> CountingRules | None:
        """The rules that hold or, where an applying was cut short, were meant to hold."""
        applied = self.applied.rules if self.applied else None
        if applied is None or (self.planned is not None and self.planned.supersedes(applied)):
            return self.planned
        return applied

    @property
    def is_whole(self) -> bool:
        """Whether the newest rules are known to have been written to every partition of this log.

        Not so when an applying was cut short, nor when the log or ClickHouse was made anew: then
        one of the two does not know them.
        """
        if self.applied is None or self.planned is None:
            return False
        applied = self.applied.rules
        return not self.planned.supersedes(applied) and applied.version >= self.greatest_version

    def shards_not_at(self, version: int, partitions: int) -> list[int]:
        """The shards that do not count by this version, or a later one, yet."""
        return [shard for shard in range(partitions) if self.counted.get(shard, 0) < version]


def known_rules(client: Client, kafka: KafkaAddress, build: int, replica: str) -> KnownRules:
    """Ask Kafka and ClickHouse. Blocks; raises TryAgainError when one of them is away.

    A ClickHouse whose tables nobody has made yet knows nothing, which is no error.
    """
    planned = planned_rules(kafka)
    if not int(_rows(client, f"EXISTS TABLE {_TABLE}")[0][0]):
        return KnownRules(None, planned, {}, planned.version if planned else 0)
    applied = _applied(client)
    ours = {"replica": replica, "incarnations": f"{replica}~"}
    [(flushed_version,)] = _rows(
        client,
        f"SELECT max(rules_version) FROM tally.positions WHERE {_OURS}",  # noqa: S608 - bound
        ours,
    )
    versions = [
        applied.rules.version if applied else 0,
        planned.version if planned else 0,
        int(flushed_version),
    ]
    counted = counted_versions(client, build, replica)
    return KnownRules(applied, planned, counted, max(versions))


def counted_versions(client: Client, build: int, replica: str) -> dict[int, int]:
    """The version each shard of a build counts by. Blocks; raises TryAgainError."""
    rows = _rows(
        client,
        "SELECT shard, max(rules_version) FROM tally.positions "  # noqa: S608 - bound
        f"WHERE build = {{build:UInt32}} AND {_OURS} GROUP BY shard ORDER BY shard",
        {"build": build, "replica": replica, "incarnations": f"{replica}~"},
    )
    return {int(shard): int(version) for shard, version in rows}


def _applied(client: Client) -> AppliedRules | None:
    rows = _rows(
        client,
        "SELECT document, toUnixTimestamp64Milli(applied_at), note FROM tally.rules "
        "WHERE version = (SELECT max(version) FROM tally.rules)",
    )
    newest: AppliedRules | None = None
    for document, applied_at_ms, note in rows:
        found = AppliedRules(_parsed(str(document)), int(applied_at_ms), str(note))
        if newest is None or found.rules.supersedes(newest.rules):
            newest = found
    return newest


def _parsed(document: str) -> CountingRules:
    try:
        return parse_rules(document.encode())
    except BadInputError as error:
        raise OperatorError(
            f"{_TABLE} has a row that is {error}; a newer Tally may have written it: use that one"
        ) from error


def _rows(
    client: Client, query: str, parameters: dict[str, Any] | None = None
) -> Sequence[Sequence[Any]]:
    try:
        return client.query(query, parameters).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell the rules: {error}") from error
