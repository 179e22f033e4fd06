"""`tally verify` on this Kafka and this ClickHouse: everything there is, now."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipeline.builds.live import build_of
from pipeline.clickhouse import connect
from pipeline.reconcile.deep import LogReading
from pipeline.reconcile.log_places import log_places
from pipeline.reconcile.reconcile import Reconciler
from pipeline.reconcile.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.reconcile.compared import Reconciled
    from schemas.settings import Settings

ANSWER_TIMEOUT_S = 600
"""A day may have many millions of cells."""


def verify(
    settings: Settings,
    clock: Clock,
    *,
    since_ms: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Reconciled:
    """Compare all there is, and record what came of it.

    With `on_progress` the log is read as well, from `since_ms` on; it is told how many records were
    read, of how many offsets. Blocks; raises TryAgainError when a server is away.
    """
    with (
        closing(connect(settings.clickhouse, answer_timeout_s=ANSWER_TIMEOUT_S)) as client,
        log_places(settings.kafka) as places,
    ):
        build = build_of(settings, client)
        stored = Stored(client, build)
        reconciler = Reconciler(stored, places, build, clock)
        scope = reconciler.scope()
        done = reconciler.spans(scope, scope.days())
        if on_progress is not None:
            reading = LogReading(stored, places, scope, since_ms)
            offsets = reading.offsets()
            found = reading.compare(
                settings.kafka, lambda read: on_progress(read, offsets), done.checked_at_ms
            )
            done.differences += found.differences
    return done
