"""A log while it runs: it answers, and does what happens by itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.embedded.files import raise_file_limit
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.maintenance import Maintenance
from pipeline.embedded.log.server import Server
from pipeline.errors import OperatorError
from pipeline.local import claim


@dataclass(frozen=True)
class RunningLog:
    """Where it answers, and the tasks that keep it going."""

    port: int
    tasks: tuple[asyncio.Task[Any], ...]

    async def ended(self) -> None:
        """Returns when one of its tasks ends, which none does unless it fails."""
        await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)


def claimed(folder: Path) -> AbstractContextManager[None]:
    """Holds the log's folder for this process; raises OperatorError, on entering, if it cannot."""
    return claim.claimed(
        folder,
        "lock",
        unusable=f"cannot use {folder}: {{why}}",
        in_use=f"{folder} is in use by another log: stop it, or choose another folder",
    )


@contextlib.asynccontextmanager
async def running(broker: Broker, host: str, port: int) -> AsyncIterator[RunningLog]:
    """A log on a port, 0 for any; on the way out all is synced and closed, the broker too.

    Raises OperatorError when the port is taken, and on leaving what made one of its tasks end.
    """
    # Half of the files are left for segments, however many peers come.
    server = Server(broker, connections_max=raise_file_limit() // 2)
    try:
        chosen = await server.start(host, port)
    except OSError as error:
        broker.stop()
        raise OperatorError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from error
    maintenance = Maintenance(broker, broker.clock)
    work = (broker.flusher.run(), broker.coordinator.run(), maintenance.run())
    tasks = tuple(asyncio.ensure_future(one) for one in work)
    try:
        yield RunningLog(chosen, tasks)
    finally:
        await server.stop()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        maintenance.stop()
        broker.stop()
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
