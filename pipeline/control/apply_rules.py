"""Puts counting rules into the log: a record in every partition, effective at its offset.

Three steps, so that whoever comes later sees what was begun and what was finished: the plan, the
partitions, the row in ClickHouse. One that is cut short, or that races with another, is set right
by applying again: the greater version wins in every partition, whatever their order there.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline import topics
from pipeline.builds.live import build_of
from pipeline.control.known_rules import KnownRules, known_rules
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.rules_diff import differences, in_one_line
from pipeline.control.shard_plan import id_partitions
from pipeline.errors import OperatorError, TryAgainError
from pipeline.planning.plan import RULES_KEY
from pipeline.rules import RULES_KIND, VERSION_MAX, CountingRules

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from schemas.settings import Settings

_POLL_S = 0.5
_COLUMNS = ["version", "document", "applied_at", "note"]


class RulesInLog:
    """The rules of one log, as the build of these settings sees them.

    Methods block, and raise TryAgainError when Kafka or ClickHouse is away. The topics and tables
    must have been made.
    """

    def __init__(self, settings: Settings, client: Client, clock: Clock) -> None:
        self._kafka = settings.kafka
        self._build = build_of(settings, client)
        self._replica = settings.replica
        self._client = client
        self._clock = clock

    def known(self) -> KnownRules:
        """What Kafka and ClickHouse know now."""
        return known_rules(self._client, self._kafka, self._build, self._replica)

    def partitions(self) -> int:
        """How many partitions the log has. Raises OperatorError when there is none."""
        return topics.made_partitions(self._kafka)

    def apply(
        self, wanted: CountingRules, known: KnownRules, note: str, *, asked_for: bool = True
    ) -> CountingRules:
        """Make `wanted` hold from now on, and return it with the version it got.

        Rules that nobody asked for, those of a worker without a file, get the least version: were
        somebody to apply others at the same moment, these must hold. Raises OperatorError, before
        anything is written, where no version is left for it.
        """
        now_ms = self._clock.now_ms()
        rules = replace(
            wanted,
            version=next_version(known, now_ms if asked_for else 0),
            id_partitions=id_partitions(known.planned or known.newest, self.partitions()),
        )
        plan = LogRecord(topics.SHARD_PLAN, 0, rules.bytes, RULES_KEY)
        write_records(self._kafka, [plan], self._clock)
        self.write_everywhere(rules)
        self._record(rules, now_ms, note)
        return rules

    def repeat(self) -> CountingRules | None:
        """Write the newest rules to every partition once more; None if there are none.

        Changes nothing where they hold. It is for partitions that were made since, and for whoever
        will count the log after retention has removed its beginning.
        """
        rules = self.known().newest
        while rules is not None:
            self.write_everywhere(rules)
            # Somebody may have applied others meanwhile, without knowing of a new partition.
            newest = self.known().newest
            if newest is None or not newest.supersedes(rules):
                return rules
            rules = newest
        return None

    def write_everywhere(self, rules: CountingRules) -> None:
        """Write a record to every partition, also to those that are added meanwhile."""
        written = 0
        while (partitions := self.partitions()) > written:
            records = [
                LogRecord(topics.INCREMENTS, partition, rules.bytes, kind=RULES_KIND)
                for partition in range(written, partitions)
            ]
            try:
                write_records(self._kafka, records, self._clock)
            except TryAgainError as error:
                raise TryAgainError(f"{error}; apply the rules again to set it right") from error
            written = partitions

    def _record(self, rules: CountingRules, now_ms: int, note: str) -> None:
        row = [
            rules.version,
            rules.bytes.decode(),
            datetime.fromtimestamp(now_ms / 1000, UTC),
            note,
        ]
        try:
            self._client.insert("rules", [row], column_names=_COLUMNS, database="tally")
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                "the rules are in every partition, but ClickHouse did not take their row; apply "
                f"them again: {error}"
            ) from error


def next_version(known: KnownRules, now_ms: int) -> int:
    """The version of rules that are applied now: the time, or above any that was seen. Pure.

    Raises OperatorError where that would be one that every reader refuses.
    """
    version = max(known.greatest_version + 1, now_ms)
    if version > VERSION_MAX:
        raise OperatorError(
            f"rules cannot have version {version}, since {VERSION_MAX} is the greatest there may "
            "be: set this machine's clock right; if it is, somebody wrote rules of a false version "
            "into the log, and only a log that is made anew can have others"
        )
    return version


def what_to_apply(
    known: KnownRules, wanted: CountingRules | None, *, overrule: bool, file: str
) -> CountingRules | None:
    """The rules that must be applied before counting begins, or None if all is well. Pure.

    `wanted` are a file's; without a file, whatever is in the log holds. Raises OperatorError where
    the file and the log differ, unless the file may overrule the log.
    """
    newest = known.newest
    if newest is None:
        return wanted or CountingRules()
    if wanted is None or wanted.counts_as(newest):
        return None if known.is_whole else newest
    if overrule:
        return wanted
    found = in_one_line(differences(newest, wanted))
    raise OperatorError(
        f"{file} has other counting rules than the log ({found}): `tally rules apply {file}` puts "
        "them into the log; or take the file away, and the log's hold"
    )


def wait_for_shards(
    rules_in_log: RulesInLog, version: int, timeout_s: float, clock: Clock
) -> list[int]:
    """Wait until every shard counts by this version; returns those that do not after a while."""
    deadline_s = clock.monotonic_s() + timeout_s
    while True:
        behind = rules_in_log.known().shards_not_at(version, rules_in_log.partitions())
        if not behind or clock.monotonic_s() >= deadline_s:
            return behind
        time.sleep(_POLL_S)
