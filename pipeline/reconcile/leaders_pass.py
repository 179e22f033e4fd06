"""One pass of the comparison as the leader runs it: cheap, and in turn over all that is kept."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipeline.builds.live import build_of
from pipeline.clickhouse import connect_beside
from pipeline.reconcile.kept import DAY_MS
from pipeline.reconcile.log_places import log_places
from pipeline.reconcile.reconcile import Reconciler, day_ms
from pipeline.reconcile.stored import Stored
from pipeline.slots import SLOT_MS

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.reconcile.compared import Reconciled
    from pipeline.reconcile.reconcile import Scope, Span
    from schemas.settings import Settings

STATEMENT_TIMEOUT_S = 120


class LeadersPass:
    """Remembers what it has compared. Its method is called by one thread at a time."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._compared_ms = 0
        self._turn_ms = 0

    def run(self) -> Reconciled:
        """One pass. Blocks; raises TryAgainError when a server is away, OperatorError."""
        settings, clock = self._settings, self._clock
        with (
            closing(
                connect_beside(settings.clickhouse, answer_timeout_s=STATEMENT_TIMEOUT_S)
            ) as client,
            log_places(settings.kafka) as places,
        ):
            build = build_of(settings, client)
            reconciler = Reconciler(Stored(client, build), places, build, clock)
            scope = reconciler.scope()
            turn = next_turn(scope, self._turn_ms)
            whole = {turn, *map(day_ms, reconciler.unsettled())}
            # What was before this worker led comes in its turn.
            since_ms = self._compared_ms or (scope.until_ms - 1) // DAY_MS * DAY_MS
            done = reconciler.spans(scope, spans_to_compare(scope, since_ms, whole))
        self._turn_ms = turn
        # The slot that was open in the shard that is furthest behind is looked at again.
        logs_ms = [scope.flushed[owner].log_ms for owner in scope.newest().values()]
        self._compared_ms = min(logs_ms, default=0) // SLOT_MS * SLOT_MS
        return done


def next_turn(scope: Scope, last_ms: int) -> int:
    """The day that is compared as a whole this time: the one after the last, or the first again."""
    days = [start_ms - start_ms % DAY_MS for start_ms, _ in scope.days()]
    return next((day_ms for day_ms in days if day_ms > last_ms), days[0] if days else 0)


def spans_to_compare(scope: Scope, compared_ms: int, whole: set[int]) -> list[Span]:
    """Whole days, and of the others what came after `compared_ms`."""
    return [
        (start_ms if start_ms - start_ms % DAY_MS in whole else max(start_ms, compared_ms), end_ms)
        for start_ms, end_ms in scope.days()
        if start_ms - start_ms % DAY_MS in whole or compared_ms < end_ms
    ]
