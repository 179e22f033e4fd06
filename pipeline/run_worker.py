"""Starts one worker in this process: servers reached, tables, topics and rules made, then Faust."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from pipeline.builds.following import Following
from pipeline.builds.live import live_build
from pipeline.builds.rebuilds import read_beginning
from pipeline.clickhouse import connect
from pipeline.control.prepare import prepare
from pipeline.errors import TallyError
from pipeline.garbage import keep_what_is_loaded
from pipeline.metrics.definitions.worker import WORKER
from pipeline.metrics.liveness import Liveness
from pipeline.metrics.server import MetricsServer
from pipeline.metrics.values import Metrics
from pipeline.prompt import PromptWorker
from pipeline.topology import build_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from schemas.settings import Settings

log = logging.getLogger(__name__)


def run_worker(settings: Settings, clock: Clock) -> NoReturn:
    """Count until a signal ends it, then end the process.

    When another build becomes live instead of the one it counts, it ends as well; if the settings
    name no build, it then goes on with the live one, in a process that begins anew under the same
    number. Waits a minute for Kafka and ClickHouse to come up; raises TryAgainError when they do
    not, and OperatorError when somebody must act, for instance since its file and the log's rules
    differ. Where the settings name an address for metrics, they are served there from the start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for noisy in ("aiokafka", "faust", "mode"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    for repeats_what_is_raised in ("clickhouse_connect", "urllib3"):
        logging.getLogger(repeats_what_is_raised).setLevel(logging.ERROR)
    metrics, liveness = Metrics(WORKER), Liveness(clock)
    if settings.metrics is not None:
        MetricsServer(settings.metrics, metrics, liveness.trouble)
    new = prepare(settings, clock)
    if new is not None:
        log.info("%s", new.line())
    with contextlib.closing(connect(settings.clickhouse)) as client:
        live = live_build(client)
        build = settings.build or live
        beginning = read_beginning(client, build)
    following = Following(build, live, _asker(settings), _retire, clock)
    named = settings.model_copy(update={"build": build})
    app = build_app(named, clock, beginning, following, metrics)
    app.task(liveness.run)
    keep_what_is_loaded()
    worker = PromptWorker(app, quiet=True, redirect_stdouts=False, loglevel="WARNING")
    worker.spinner = None  # stdout tells supervisors when the worker is ready
    try:
        worker.execute_from_commandline()
    except SystemExit:
        if following.is_retired and not settings.build:
            _begin_anew()
        raise


def _asker(settings: Settings) -> Callable[[], int]:
    """What asks which build is live, on a connection that is made anew after it failed.

    Thread-safe: at a handover, who counts asks beside who watches.
    """
    clients: list[Client] = []
    one_at_a_time = threading.Lock()

    def ask() -> int:
        with one_at_a_time:
            if not clients:
                clients.append(connect(settings.clickhouse))
            try:
                return live_build(clients[0])
            except TallyError:
                clients.pop().close()
                raise

    return ask


def _retire(live: int) -> None:
    """Another build took over: end in order."""
    log.info("build %d is live now", live)
    os.kill(os.getpid(), signal.SIGTERM)


def _begin_anew() -> NoReturn:
    """Become a worker of the live build. Faust can be run once in a process.

    Settings are in the environment, which stays; what listens is closed with the old program, so
    that the new one can listen there again.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "pipeline.cli", "worker"])  # noqa: S606 - no shell is wanted
