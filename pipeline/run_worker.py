"""Starts one worker in this process: servers reached, tables and topics made, then Faust."""

from __future__ import annotations

import gc
import logging
import time
from typing import TYPE_CHECKING, NoReturn

import faust

from pipeline import topics
from pipeline.errors import TryAgainError
from pipeline.sink import connect
from pipeline.topology import build_app
from schemas.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from schemas.settings import Settings

log = logging.getLogger(__name__)

_SERVERS_TIMEOUT_S = 60.0
_RETRY_S = 1.0


def run_worker(settings: Settings, clock: Clock) -> NoReturn:
    """Count until a signal ends it, then end the process.

    Waits a minute for Kafka and ClickHouse to come up; raises TryAgainError when they do not, and
    OperatorError when somebody must act.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for noisy in ("aiokafka", "faust", "mode"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    _patiently(clock, lambda: migrate(connect(settings.clickhouse)))
    _patiently(
        clock, lambda: topics.ensure_topics(settings.kafka, settings.build, settings.partitions)
    )
    app = build_app(settings, clock)
    # What is loaded by now stays. Looking at it again each time, the collector would take a good
    # part of the time that counting takes.
    gc.collect()
    gc.freeze()
    worker = faust.Worker(app, quiet=True, redirect_stdouts=False, loglevel="WARNING")
    worker.spinner = None  # stdout tells supervisors when the worker is ready
    worker.execute_from_commandline()


def _patiently(clock: Clock, step: Callable[[], object]) -> None:
    deadline_s = clock.monotonic_s() + _SERVERS_TIMEOUT_S
    while True:
        try:
            step()
        except TryAgainError as error:
            if clock.monotonic_s() > deadline_s:
                raise
            log.warning("%s; trying again", error)
            time.sleep(_RETRY_S)
        else:
            return
