"""`python -m pipeline.embedded.clickhouse`: the embedded ClickHouse as a process."""

import argparse
import asyncio
import contextlib
import gc
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import uvloop
from aiohttp import web

from pipeline.access.access import Access
from pipeline.access.own import own_known
from pipeline.access.sites import is_loopback
from pipeline.clock import SystemClock
from pipeline.embedded.clickhouse.connections import CONNECTIONS_MAX, Connections
from pipeline.embedded.clickhouse.control import remove_control, write_control
from pipeline.embedded.clickhouse.errors import DISK_IS_FULL
from pipeline.embedded.files import raise_file_limit
from pipeline.errors import OperatorError
from pipeline.local.claim import claimed
from schemas.settings import load_settings

STOP_WITHIN_S = 5.0
SWITCH_S = 0.0005
BACKLOG = 1_024

IDLE_S = 75
"""How long a connection may be without a whole head of a request. Then it is closed: aiohttp counts
from when it was made or last answered, whatever has come of a head since, but for an hour. Who
takes nothing of its answers is let go after three times that at most: it is looked so often."""

LINE_BYTES_MAX = 1 << 20
"""Of a request's first line: a query may stand in it, three bytes for each of its own."""

HEADER_BYTES_MAX = 32 << 10
"""Of one header, of which there are 128 at most: a JWT as a password is a third of it."""


def main() -> int:
    """Runs until SIGTERM or SIGINT. Exit code 1, with one line on stderr, when it cannot."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.embedded.clickhouse")
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps the tables")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=18123, help="0 takes any free port")
    parser.add_argument("--tokens", type=Path, help="token file; TALLY_TOKENS if left out")
    parser.add_argument("--jwt-key", type=Path, help="key of JWTs; TALLY_JWT_KEY if left out")
    options = parser.parse_args()
    given = {"tokens": options.tokens, "jwt_key": options.jwt_key}
    # A thread that takes an insert apart gives way to the loop sooner than by default.
    sys.setswitchinterval(SWITCH_S)
    # Each query that runs or waits has a connection and a pipe, beside the files of the engine.
    connections_max = min(CONNECTIONS_MAX, raise_file_limit() // 2)
    try:
        settings = load_settings(**{name: path for name, path in given.items() if path})
        access = Access.of(settings, SystemClock(), own_known(os.environ))
        if access is None and not is_loopback(options.host):
            raise OperatorError(
                f"refusing to listen on {options.host}, which others can reach, without tokens: "
                "give --tokens, or --host 127.0.0.1"
            )
        # The engine has a lock of its own, but it complains on stderr in several lines, and only
        # after having loaded for a second.
        with (
            claimed(
                options.data,
                "door.lock",
                unusable=f"cannot use {options.data}: {{why}}; give another --data",
                in_use=f"{options.data} is in use by another ClickHouse; "
                "stop it or give another --data",
            ),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(serve(options.data, options.host, options.port, access, connections_max))
    except OperatorError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this line is the command's contract
        return 1
    except OSError as error:
        if error.errno not in DISK_IS_FULL:
            raise
        print(f"the disk of {options.data} is full: make room on it", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def serve(
    data: Path, host: str, port: int, access: Access | None, connections_max: int
) -> None:
    """Serve until told to stop. Raises OperatorError when the port or the folder cannot be had, and
    when the engine has to be started again; OSError when the disk is full."""
    # The import loads the engine, half a gigabyte of it, so it waits until the folder is ours.
    from pipeline.embedded.clickhouse.disk_watch import DiskWatch  # noqa: PLC0415
    from pipeline.embedded.clickhouse.engine import Engine  # noqa: PLC0415
    from pipeline.embedded.clickhouse.entrance import Entrance  # noqa: PLC0415
    from pipeline.embedded.clickhouse.freezing import Freezer  # noqa: PLC0415
    from pipeline.embedded.clickhouse.freezing_routes import Freezing  # noqa: PLC0415
    from pipeline.embedded.clickhouse.server import Door  # noqa: PLC0415
    from pipeline.embedded.clickhouse.write_gate import WriteGate  # noqa: PLC0415
    from pipeline.metrics.definitions.clickhouse import CLICKHOUSE  # noqa: PLC0415
    from pipeline.metrics.values import Metrics  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    spoilt: list[str] = []

    def stop_as_spoilt(why: str) -> None:
        spoilt.append(why)
        loop.call_soon_threadsafe(stop.set)

    remove_control(data)
    spool = data / "door"
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir()
    engine = Engine(data / "engine")
    watch = DiskWatch(engine, data / "engine", stop_as_spoilt)
    try:
        watch.start()
        gate = WriteGate()
        freezer = Freezer(engine, data / "engine", data / "frozen", gate, SystemClock())
        freezing = Freezing(freezer, gate)
        metrics = Metrics(CLICKHOUSE)
        door = Door(engine, spool, SystemClock(), Entrance(access), metrics, freezing=freezing)
        runner = web.AppRunner(
            door.application(),
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            shutdown_timeout=STOP_WITHIN_S,
        )
        await runner.setup()
        try:
            connections = Connections(
                cast("web.Server", runner.server), connections_max, engine.version, IDLE_S
            )
            async with _listening(connections, host, port) as (name, bound):
                # What is loaded stays: the collector need not look at it while somebody waits.
                gc.collect()
                gc.freeze()
                freezing.control = write_control(data, name, bound)
                print(f"clickhouse ready on {name}:{bound}", flush=True)  # noqa: T201 - the command's contract
                await stop.wait()
        finally:
            await runner.cleanup()
    finally:
        watch.close()
        engine.close()
    if spoilt:
        raise OperatorError(spoilt[0])


@contextlib.asynccontextmanager
async def _listening(
    connections: Connections, host: str, port: int
) -> AsyncIterator[tuple[str, int]]:
    """Where it is listened, until the way out. Raises OperatorError if the port cannot be had."""
    loop = asyncio.get_running_loop()
    try:
        listener = await loop.create_server(connections, host, port, backlog=BACKLOG)
    except OSError as error:
        raise OperatorError(
            f"cannot listen on {host}:{port}: {error.strerror}; give another --port"
        ) from None
    try:
        name, number = listener.sockets[0].getsockname()[:2]
        yield name, number
    finally:
        listener.close()


if __name__ == "__main__":
    sys.exit(main())
