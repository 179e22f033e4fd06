"""Rolls minutes up to hours and days in ClickHouse, and lets go of what is past its retention.

Anybody may run a pass at any moment, twice at once or after having been replaced: see
pipeline/rollup/steps.py for why. One leader does it so that the work is done once.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any, cast

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

from pipeline.clickhouse import NOW_MS
from pipeline.errors import OperatorError, TryAgainError
from pipeline.rollup import retention, sketch_sql
from pipeline.rollup import sql as rollup_sql
from pipeline.rollup import steps as rollup_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.rollup.retention import Grain
    from pipeline.rollup.steps import Operation, Rolled
    from schemas.families import Families

_SHARE_OF_TIME_MAX = 4
_PARTITION = re.compile(r"\(([0-9]+),'([0-9]{4}-[0-9]{2}-[0-9]{2})'\)")
# Confirmed means stored. A deletion is not waited for: ClickHouse has it in writing, and goes on
# with it after a restart.
_SETTINGS = {"async_insert": 0, "mutations_sync": 0}
_COUNT_OPEN = {"cells": rollup_sql.COUNT_OPEN, **sketch_sql.COUNT_OPEN}
_ROLL = {"cells": rollup_sql.ROLL, **sketch_sql.ROLL}
# Stands in where a list may not be empty; no topic has a partition of this number.
_NO_SHARD = 2**32 - 1


def pause_s(interval_s: float, took_s: float) -> float:
    """How long to wait after a pass: so that passes take at most a quarter of the time."""
    return max(interval_s - took_s, (_SHARE_OF_TIME_MAX - 1) * took_s)


class Rollup:
    """The rollup of one build, by one replica."""

    def __init__(
        self,
        client: Client,
        build: int,
        replica: str,
        families: Families,
        clock: Clock,
        *,
        longest_query_s: float,
    ) -> None:
        """`longest_query_s` is how long anybody's query may run: nothing is dropped before."""
        self._client = client
        self._build = build
        self._replica = replica
        self._families = families
        self._clock = clock
        self._longest_query_ms = int(longest_query_s * 1000)

    def run(self, partitions: int) -> Rolled:
        """One pass. Blocks, for a bounded time per statement; `partitions` is what Kafka reports.

        Raises TryAgainError when ClickHouse is away, in which case the next pass does what is left,
        and OperatorError when it refuses anything but the rollup of a family: that is in the
        answer's `problems`, since other families go on.
        """
        began_s = self._clock.monotonic_s()
        steps = rollup_steps.rollup_pass(partitions, self._families, self._longest_query_ms)
        operation = next(steps)
        while True:
            try:
                try:
                    answer = self._do(operation)
                except OperatorError as error:
                    operation = steps.throw(error)
                else:
                    operation = steps.send(answer)
            except StopIteration as stop:
                rolled = cast("Rolled", stop.value)
                rolled.took_s = self._clock.monotonic_s() - began_s
                return rolled

    def _do(self, operation: Operation) -> object:  # noqa: PLR0911 - one case per operation
        match operation:
            case rollup_steps.ReadProgress():
                return self._progress()
            case rollup_steps.CountOpen(slots, kind):
                return self._rows(_COUNT_OPEN[kind], _open(slots))
            case rollup_steps.Roll():
                return self._roll(operation)
            case rollup_steps.ConfirmShards(rolled):
                shards = {"shards": list(rolled), "log_ms": list(rolled.values())}
                return self._run(rollup_sql.CONFIRM_SHARDS, shards) if rolled else None
            case rollup_steps.ConfirmFamilies(families, failed):
                names = {"families": sorted(families), "failed": sorted(failed)}
                return self._run(rollup_sql.CONFIRM_FAMILIES, names)
            case rollup_steps.ReadDays(partitions):
                return self._days(partitions)
            case rollup_steps.ConfirmFinal(grain, days, partitions):
                final = {"grain": grain, "days": list(days), "partitions": partitions}
                return self._run(rollup_sql.CONFIRM_FINAL, final)
            case rollup_steps.ConfirmDeleted(deletion, partitions):
                deleted = {
                    "grain": deletion.grain,
                    "day": deletion.day,
                    "families": deletion.families.text(),
                    "partitions": partitions,
                }
                return self._run(rollup_sql.CONFIRM_DELETED, deleted)
            case retention.Fold(month, part, parts):
                share = {"month": month, "part": part, "parts": parts}
                return self._run_all((rollup_sql.FOLD, sketch_sql.FOLD), share)
            case retention.Drop(grain, day):
                return self._run_all(rollup_sql.drop(grain, self._build, day.isoformat()), {})
            case retention.Delete(grain, day, families):
                statements = rollup_sql.delete(
                    grain, self._build, day.isoformat(), all_but=families.all_but
                )
                return self._run_all(statements, {"families": list(families.names)})

    def _progress(self) -> rollup_steps.Progress:
        # The flushed positions come first of all: whatever is read later holds at least that much.
        flushed, rolled = (
            {int(shard): int(log_ms) for shard, log_ms in self._rows(sql, {}) if log_ms > 0}
            for sql in (
                rollup_sql.PROGRESS.format(table="positions"),
                rollup_sql.PROGRESS.format(table="rolled_shards"),
            )
        )
        return rollup_steps.Progress(flushed, rolled)

    def _roll(self, roll: rollup_steps.Roll) -> object:
        return self._run(
            _ROLL[roll.kind][roll.grain],
            {
                **_open(roll.open),
                "day": roll.day,
                "first": roll.first,
                "last": roll.last,
                "part": roll.part,
                "parts": roll.parts,
            },
        )

    def _days(self, partitions: int) -> retention.Days:
        asked = {"partitions": partitions}
        [(now_ms,)] = self._rows(NOW_MS, {})
        present: dict[Grain, dict[date, int]] = {"1m": {}, "1h": {}, "1d": {}}
        for grain, partition, rows in self._rows(rollup_sql.PRESENT, {}):
            found = _PARTITION.fullmatch(partition)
            if found is not None and int(found[1]) == self._build:
                present[cast("Grain", grain)][date.fromisoformat(found[2])] = int(rows)
        final = self._rows(rollup_sql.FINAL, asked)
        deleted = self._rows(rollup_sql.DELETED, asked)
        return retention.Days(
            now_ms=int(now_ms),
            present=present,
            final={(grain, day): int(confirmed_ms) for grain, day, confirmed_ms in final},
            deleted=frozenset((grain, day, families) for grain, day, families in deleted),
        )

    def _rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        bound = {"build": self._build, "replica": self._replica, **parameters}
        try:
            return self._client.query(sql, parameters=bound).result_rows
        except (ClickHouseError, OSError) as error:
            raise _as_ours(error) from error

    def _run_all(self, statements: Sequence[str], parameters: Mapping[str, Any]) -> object:
        return [self._run(statement, parameters) for statement in statements]

    def _run(self, sql: str, parameters: Mapping[str, Any]) -> object:
        bound = {"build": self._build, "replica": self._replica, **parameters}
        try:
            return self._client.command(sql, parameters=bound, settings=_SETTINGS)
        except (ClickHouseError, OSError) as error:
            raise _as_ours(error) from error


def _open(slots: rollup_steps.Open) -> dict[str, Any]:
    """Which slots are open, as parameters; slots are whole seconds."""
    return {
        "shards": [*slots.since, _NO_SHARD],
        "slots_s": [*(slot_ms // 1000 for slot_ms in slots.since.values()), 0],
        "least_s": slots.least_ms // 1000,
    }


def _as_ours(error: Exception) -> OperatorError | TryAgainError:
    reason = " ".join(str(error).split())[:500]
    # An OperationalError, nobody answering, is a DatabaseError as well.
    if isinstance(error, DatabaseError) and not isinstance(error, OperationalError):
        return OperatorError(f"ClickHouse refuses to roll up: {reason}")
    return TryAgainError(f"ClickHouse does not answer the rollup: {reason}")
