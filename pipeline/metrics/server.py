"""Serves `/metrics` and `/health` of a process, from a thread of its own.

A thread, not the process's event loop: a worker is asked how it is doing while it still waits for
its servers, before there is a loop, and a loop that hangs is just what somebody wants to see.
"""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING

from pipeline.errors import OperatorError
from pipeline.metrics.exposition import exposition
from schemas.host_port import split_host_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.metrics.values import Metrics

CLIENT_TIMEOUT_S = 5.0
"""How long a client may take to ask, and to take its answer."""

REQUESTS_MAX = 8
"""Asked at the same time; who comes beyond it is let go."""


class MetricsServer:
    """Listens from the moment it is made, until `close`."""

    def __init__(
        self,
        address: str,
        metrics: Metrics,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`address` is host:port; `trouble` says why the process should be started anew, or None.

        Raises OperatorError, naming TALLY_METRICS, when the address cannot be had.
        """
        try:
            host, port = split_host_port(address)
            self._server = _Server(host, port, metrics, trouble)
        except ValueError as error:
            raise OperatorError(f"TALLY_METRICS: {error}") from None
        except OSError as error:
            raise OperatorError(
                f"TALLY_METRICS: cannot listen on {address}: {error.strerror}; choose another port"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Blocks for half a second at most."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = REQUESTS_MAX

    def __init__(
        self, host: str, port: int, metrics: Metrics, trouble: Callable[[], str | None]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.metrics = metrics
        self.trouble = trouble
        self._room = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__((host, port), _Handler)

    def process_request(self, request: object, client_address: object) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]  # as it came
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]  # as it came

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # as it came
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            found = exposition(self.server.metrics, self.headers.get("Accept", ""))
            self._answer(200, found.content_type, found.body)
        elif path == "/health":
            trouble = self.server.trouble()
            text = f"{trouble or 'ok'}\n".encode()
            self._answer(503 if trouble else 200, "text/plain; charset=utf-8", text)
        else:
            self._answer(404, "text/plain; charset=utf-8", b"ask for /metrics or /health\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_args: object) -> None:  # noqa: A002 - the base's name
        """Nothing: a scrape every few seconds is no news."""
