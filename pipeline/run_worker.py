"""Starts one worker in this process: servers reached, tables, topics and rules made, then Faust."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, NoReturn

import faust

from pipeline.control.prepare import prepare
from pipeline.topology import build_app

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from schemas.settings import Settings

log = logging.getLogger(__name__)


def run_worker(settings: Settings, clock: Clock) -> NoReturn:
    """Count until a signal ends it, then end the process.

    Waits a minute for Kafka and ClickHouse to come up; raises TryAgainError when they do not, and
    OperatorError when somebody must act, for instance since its file and the log's rules differ.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for noisy in ("aiokafka", "faust", "mode"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    for repeats_what_is_raised in ("clickhouse_connect", "urllib3"):
        logging.getLogger(repeats_what_is_raised).setLevel(logging.ERROR)
    new = prepare(settings, clock)
    if new is not None:
        log.info("%s", new.line())
    app = build_app(settings, clock)
    # What is loaded by now stays. Looking at it again each time, the collector would take a good
    # part of the time that counting takes.
    gc.collect()
    gc.freeze()
    worker = faust.Worker(app, quiet=True, redirect_stdouts=False, loglevel="WARNING")
    worker.spinner = None  # stdout tells supervisors when the worker is ready
    worker.execute_from_commandline()
