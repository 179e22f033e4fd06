"""Runs the web API in this process, on an address that is safe to serve on."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import uvicorn
import uvloop

from pipeline.access.sites import is_loopback
from pipeline.embedded.files import raise_file_limit
from pipeline.errors import OperatorError
from pipeline.garbage import keep_what_is_loaded
from pipeline.web.app import build_app
from pipeline.web.connection import Connection
from pipeline.web.services import Services
from schemas.host_port import split_host_port

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from schemas.settings import Settings

CONNECTIONS_MAX = 10_000
"""Who comes when there are so many, or half of the files that the process may open, is answered
503, and its connection closed."""

UNSERVED_MAX = 1_000
"""Connections beyond those, or a twentieth of the files, which may ask and be told so. One more is
closed at once. What is left is for Kafka, ClickHouse and the questions of operators."""

IDLE_S = 75
"""How long a connection may be without a whole head of a request. Then it is closed."""

STOP_S = 10
SWITCH_S = 0.0001
BACKLOG = 2_048


def serve(settings: Settings, clock: Clock) -> None:
    """Serve until a signal ends it. Prints `web ready` when it listens.

    Kafka and ClickHouse may come up later. Raises OperatorError for an address that cannot be
    listened on, or that others reach while there are no tokens.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for repeats_what_is_raised in ("clickhouse_connect", "urllib3"):
        logging.getLogger(repeats_what_is_raised).setLevel(logging.ERROR)
    host, port = split_host_port(settings.web)
    services = Services(settings, clock)
    if services.access is None and not is_loopback(host):
        raise OperatorError(
            f"{settings.web} can be reached by others, and there are no tokens: set TALLY_TOKENS "
            "(tally token add makes one) or TALLY_JWT_KEY, or listen on 127.0.0.1"
        )
    files = raise_file_limit()
    served_max, unserved_max = min(CONNECTIONS_MAX, files // 2), min(UNSERVED_MAX, files // 20)
    connection = partial(
        Connection, served_max=served_max, connections_max=served_max + unserved_max
    )
    listener = _listen(host, port)
    config = uvicorn.Config(
        build_app(services),
        loop="none",
        # uvicorn only calls it.
        http=cast("type[Connection]", connection),
        # Nothing here speaks it, and uvicorn would take the connection from under its requests.
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=STOP_S,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    keep_what_is_loaded()
    # Threads that read ClickHouse's answers give way to the loop sooner than by default.
    sys.setswitchinterval(SWITCH_S)
    server = _Server(config, services)
    with listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve([listener]))


class _Server(uvicorn.Server):
    """Says when it listens; ends streams before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._services.hub.close()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(f"web ready: http://{_address(sockets)}\n")
            sys.stdout.flush()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OperatorError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another with TALLY_WEB"
        ) from error
    return listener


def _address(sockets: list[socket.socket] | None) -> str:
    host, port = sockets[0].getsockname()[:2] if sockets else ("", 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
