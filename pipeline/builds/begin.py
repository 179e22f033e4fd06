"""Begins a build that counts the log anew, or finds the one that was begun and not taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.builds.base import carry, month_is_folded
from pipeline.builds.carried import CARRIED
from pipeline.builds.horizon import (
    counts_from_ms,
    known_rules,
    longest_horizon_ms,
    read_log,
)
from pipeline.builds.live import FOREIGN, live_build
from pipeline.builds.positions import reached
from pipeline.builds.rebuilds import (
    Rebuild,
    State,
    declared_builds,
    read_rebuilds,
    write_rebuild,
)
from pipeline.builds.same_log import check_same_log, some
from pipeline.errors import OperatorError
from pipeline.groupless import log_ranges
from pipeline.reads.applied_rules import newest_rules, rules_history
from pipeline.reads.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.builds.horizon import PartitionLog
    from pipeline.builds.positions import Reached
    from pipeline.clock import Clock
    from pipeline.rules import CountingRules
    from schemas.addresses import KafkaAddress


class Rebuilding:
    """Builds of one log and one ClickHouse. Methods block; they raise TryAgainError when a server
    is away, and OperatorError when somebody must act."""

    def __init__(self, kafka: KafkaAddress, client: Client, clock: Clock, replica: str) -> None:
        self._kafka = kafka
        self._replica = replica
        self._client = client
        self._clock = clock

    def find(self) -> Rebuild | None:
        """The newest rebuild that nobody has declared or dropped yet.

        Raises OperatorError if the log was trimmed before it had begun with a partition.
        """
        declared = declared_builds(self._client)
        waiting = [
            one
            for one in read_rebuilds(self._client).values()
            if one.build not in declared and one.state != State.DROPPED
        ]
        found = max(waiting, key=lambda one: one.build, default=None)
        if found is not None:
            begun = reached(self._client, found.build)
            for partition, (start, _) in enumerate(log_ranges(self._kafka)):
                if partition not in begun:
                    found.beginning().check(partition, start)
        return found

    def begin(self, note: str, *, by_newest_rules: bool) -> Rebuild:
        """A new one, which counts what the log can tell exactly.

        `by_newest_rules` counts history by the rules that hold now, instead of those that held.
        """
        log = read_log(self._kafka)
        base = live_build(self._client)
        self._check_replica(base)
        before = reached(self._client, base)
        check_same_log(self._kafka, base, before)
        known = self._known_rules(log)
        counts_from = self._counts_from(base, log, before, known)
        _check_members(counts_from, known)
        self._check_past(counts_from, before, log)
        rules = newest_rules(Reads(self._client, self._clock)) if by_newest_rules else None
        if by_newest_rules and rules is None:
            raise OperatorError("no rules were applied yet: `tally rules apply FILE` does that")
        rebuild = Rebuild(
            build=self._next_number(),
            base=base if counts_from else 0,
            counts_from_ms=counts_from,
            rules=rules.bytes.decode() if rules else "",
            starts=tuple(one.start for one in log),
            incarnations=_incarnations(before, len(log)),
            begun_at_ms=self._clock.now_ms(),
            note=note,
        )
        write_rebuild(self._client, rebuild, self._clock)
        return rebuild

    def carry_base(self, rebuild: Rebuild, tell: Callable[[str], None]) -> Rebuild:
        """See to it that what is older than the rebuild counts is there."""
        if not rebuild.lacks_base:
            return rebuild
        self._check_base(rebuild)
        carry(
            self._client,
            rebuild.base,
            rebuild.build,
            rebuild.counts_from_ms,
            tables=CARRIED,
            tell=tell,
        )
        self._check_base(rebuild)
        carried = replace(rebuild, state=State.CARRIED)
        write_rebuild(self._client, carried, self._clock)
        return carried

    def _known_rules(self, log: Sequence[PartitionLog]) -> list[CountingRules]:
        """All that ever held, as far as anybody knows."""
        history = rules_history(Reads(self._client, self._clock))
        return [*known_rules(log), *(one for _, one in history if one is not None)]

    def _counts_from(
        self,
        base: int,
        log: Sequence[PartitionLog],
        before: dict[int, Reached],
        rules: Sequence[CountingRules],
    ) -> int:
        other_log_ms = max((one.other_log_ms for one in before.values()), default=0) or None
        found = counts_from_ms(log, longest_horizon_ms(rules), other_log_ms)
        # What the live build was given, perhaps from a log that is gone, is passed on.
        before_it = read_rebuilds(self._client).get(base, Rebuild(base))
        found = max(found, before_it.counts_from_ms)
        while found and month_is_folded(self._client, base, found):
            moment = datetime.fromtimestamp(found / 1000, UTC)
            year, month = divmod(moment.year * 12 + moment.month, 12)
            found = int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp() * 1000)
        return found

    def _check_past(
        self, counts_from: int, before: dict[int, Reached], log: Sequence[PartitionLog]
    ) -> None:
        """Raise OperatorError unless the live build has counted all that is carried over."""
        if not counts_from:
            return
        behind = [
            one.partition
            for one in log
            if one.partition not in before or before[one.partition].log_ms < counts_from
        ]
        if behind:
            day = datetime.fromtimestamp(counts_from / 1000, UTC)
            raise OperatorError(
                "the beginning of the log was deleted, and what is left of it can be counted "
                f"exactly from {day:%Y-%m-%d} on, one day of log time as a whole: try again when "
                f"that has begun in every partition (it has not in {some(behind)})"
            )

    def _check_base(self, rebuild: Rebuild) -> None:
        """Raise OperatorError unless the base still has the days that are carried over."""
        if not reached(self._client, rebuild.base) or month_is_folded(
            self._client, rebuild.base, rebuild.counts_from_ms
        ):
            raise OperatorError(
                f"build {rebuild.base} has no longer what build {rebuild.build} needs of it: begin "
                "another one with `tally replay --new`"
            )

    def _check_replica(self, base: int) -> None:
        """Raise OperatorError if the live build is counted under another name."""
        rows = Reads(self._client, self._clock).rows(
            "SELECT DISTINCT splitByChar('~', toString(replica))[1] FROM tally.positions "
            "WHERE build = {build:UInt32}",
            {"build": base},
        )
        names = sorted(str(name) for (name,) in rows)
        if names and self._replica not in names:
            raise OperatorError(
                f"build {base} is counted as replica {names[0]!r}, this would be as "
                f"{self._replica!r}: set TALLY_REPLICA={names[0]}"
            )

    def _next_number(self) -> int:
        """Above any build that left a trace, so that nothing old is taken for it."""
        rows = Reads(self._client, self._clock).rows(
            "SELECT max(build) FROM (SELECT build FROM tally.builds WHERE cluster = '' UNION ALL "
            "SELECT build FROM tally.rebuilds UNION ALL SELECT build FROM tally.positions "
            "WHERE build < {foreign:UInt32})",
            {"foreign": FOREIGN},
        )
        known = topics.partition_counts(topics.admin_client(self._kafka))
        return max(int(rows[0][0]), *topics.builds_with_changelog(known), 0) + 1


def _incarnations(before: Mapping[int, Reached], partitions: int) -> tuple[int, ...]:
    """Under which the live build counts each partition now.

    All from the day on which a new build counts is of that one: what it counted under others is of
    a log that is gone, or before what is left of this one.
    """
    return tuple(before[shard].incarnation if shard in before else 0 for shard in range(partitions))


def _check_members(counts_from: int, known: Sequence[CountingRules]) -> None:
    """Raise OperatorError if families count each member once and the log's beginning is gone: who
    was in by then is told by nothing that is left."""
    if not counts_from:
        return
    default = any(rules.default.once_per_member for rules in known)
    named = {name for one in known for name, of in one.families.items() if of.once_per_member}
    if default or named:
        families = ", ".join(sorted(named)) or "all that are not named"
        raise OperatorError(
            "the beginning of the log was deleted, and with it who was counted by then in families "
            f'with once_per = "member" ({families}): it cannot be counted anew; for such families '
            "keep the log for ever (retention.ms of tally.increments)"
        )
