"""The command: `python -m pipeline.embedded.log --data DIR --host 127.0.0.1 --port N`."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sqlite3
import sys
from pathlib import Path

from pipeline.clock import SystemClock
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.running import claimed, running
from pipeline.errors import OperatorError
from pipeline.metrics.definitions.log import LOG
from pipeline.metrics.liveness import Liveness
from pipeline.metrics.server import MetricsServer
from pipeline.metrics.values import Metrics

SWITCH_INTERVAL_S = 0.0005


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipeline.embedded.log", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps the log")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=19092, help="port to listen on, 0 for any")
    parser.add_argument(
        "--fsync",
        type=Fsync,
        choices=list(Fsync),
        default=Fsync.SECOND,
        help="when records are forced to the disk: each second, or before each acknowledgement",
    )
    return parser.parse_args(arguments)


async def serve(options: argparse.Namespace) -> None:
    """Serves until SIGTERM or SIGINT, metrics too where TALLY_METRICS says host:port.

    Raises OperatorError when a port is taken.
    """
    metrics, liveness = Metrics(LOG), Liveness(SystemClock())
    with contextlib.ExitStack() as serving:
        if address := os.environ.get("TALLY_METRICS", "").strip():
            serving.callback(MetricsServer(address, metrics, liveness.trouble).close)
        await _serve(options, metrics, liveness)


async def _serve(options: argparse.Namespace, metrics: Metrics, liveness: Liveness) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        broker = Broker(options.data, SystemClock(), options.fsync, metrics)
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(
            f"cannot open the log in {options.data}: {error}; is there room on the disk, and may "
            "this user write there?"
        ) from error
    async with running(broker, options.host, options.port) as log:
        # What is loaded by now stays: the collector need not look at it while somebody waits.
        gc.collect()
        gc.freeze()
        sys.stdout.write(f"log ready on {options.host}:{log.port}\n")
        sys.stdout.flush()
        tasks = [loop.create_task(one) for one in (stopped.wait(), log.ended(), liveness.run())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def main() -> int:
    options = parse(sys.argv[1:])
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    # A thread that compacts must hand over to the one that answers often, not 200 times a second.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with claimed(options.data):
            asyncio.run(serve(options))
    except OperatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
