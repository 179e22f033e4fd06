"""What must be there before anything is counted: tables, topics, and the rules in the log."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pipeline import topics
from pipeline.builds.live import build_of
from pipeline.clickhouse import connect
from pipeline.control.apply_rules import RulesInLog, what_to_apply
from pipeline.control.rules_diff import differences, in_one_line
from pipeline.control.stored_retention import StoredRetention, settle_retention
from pipeline.errors import TryAgainError
from pipeline.rules import counting_rules
from schemas.families import load_families
from schemas.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.control.rules_diff import Difference
    from pipeline.rules import CountingRules
    from schemas.settings import Settings

T = TypeVar("T")

log = logging.getLogger(__name__)

SERVERS_TIMEOUT_S = 60.0
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class NewRules:
    """What was just put into the log or, if only retention is new, stored; `changes` says, in
    words, what is new in it."""

    rules: CountingRules | None
    changes: str

    def line(self) -> str:
        """For people who read a worker's output."""
        if self.rules is None:
            return f"the retention of the file holds now ({self.changes})"
        return f"rules {self.rules.version} are in the log now ({self.changes})"


def prepare(
    settings: Settings,
    clock: Clock,
    *,
    overrule: bool = False,
    patience_s: float = SERVERS_TIMEOUT_S,
) -> NewRules | None:
    """Make what is missing; returns the rules that had to be applied, if any.

    Waits so long for Kafka and ClickHouse to come up; raises TryAgainError when they do not.
    Raises OperatorError when somebody must act: also when the families' file has other counting
    rules than the log, unless the file may overrule it. A file with another retention than the one
    that holds is warned of, and else does the same.
    """
    _patiently(clock, patience_s, lambda: make_tables_and_topics(settings))
    new = _patiently(clock, patience_s, lambda: _ensure_rules(settings, clock, overrule=overrule))
    # Not before the rules: a file that is refused changes nothing.
    kept = _patiently(
        clock, patience_s, lambda: _ensure_retention(settings, clock, overrule=overrule)
    )
    if not kept:
        return new
    changes = in_one_line(kept)
    return NewRules(new.rules, f"{new.changes}; {changes}") if new else NewRules(None, changes)


def make_tables_and_topics(settings: Settings) -> None:
    """Make those that are missing. Blocks; raises TryAgainError, OperatorError."""
    with contextlib.closing(connect(settings.clickhouse)) as client:
        migrate(client)
        build = build_of(settings, client)
    topics.ensure_topics(settings.kafka, build, settings.partitions)


def _ensure_rules(settings: Settings, clock: Clock, *, overrule: bool) -> NewRules | None:
    file = settings.config
    wanted = counting_rules(load_families(file)) if file else None
    with contextlib.closing(connect(settings.clickhouse)) as client:
        rules_in_log = RulesInLog(settings, client, clock)
        known = rules_in_log.known()
        missing = what_to_apply(known, wanted, overrule=overrule, file=str(file))
        if missing is None:
            return None
        changes = "the first rules"
        if known.newest is not None:
            found = differences(known.newest, missing)
            changes = in_one_line(found) if found else "the same, where they were missing"
        note = f"at start, from {file}" if wanted else "at start, without a file"
        applied = rules_in_log.apply(missing, known, note, asked_for=wanted is not None)
        # Another worker may have applied another file at the same moment; one of the two refuses.
        what_to_apply(rules_in_log.known(), wanted, overrule=overrule, file=str(file))
    return NewRules(applied, changes)


def _ensure_retention(settings: Settings, clock: Clock, *, overrule: bool) -> list[Difference]:
    file = settings.config
    if file is None:
        return []
    with contextlib.closing(connect(settings.clickhouse)) as client:
        stored = StoredRetention(client, clock)
        return settle_retention(stored, load_families(file), file, overrule=overrule)


def _patiently(clock: Clock, patience_s: float, step: Callable[[], T]) -> T:
    deadline_s = clock.monotonic_s() + patience_s
    while True:
        try:
            return step()
        except TryAgainError as error:
            if clock.monotonic_s() > deadline_s:
                raise
            log.warning("%s; trying again", error)
            time.sleep(_RETRY_S)
