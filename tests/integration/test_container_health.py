"""The health check of containers: what it says of a worker and of the web API."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pipeline.container_health import is_well


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A process that answers every question so; where it listens for others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"0.0.0.0:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("variable", "status", "well"),
    [
        ("TALLY_METRICS", 200, True),
        ("TALLY_METRICS", 503, False),
        ("TALLY_WEB", 200, True),
        ("TALLY_WEB", 503, True),
    ],
)
def test_a_worker_must_say_that_it_is_well_and_the_web_api_must_answer(
    variable: str, status: int, well: bool
) -> None:
    with answering(status) as address:
        assert is_well({variable: address}) is well


def test_nobody_there_is_not_well() -> None:
    with answering(200) as address:
        pass
    assert not is_well({"TALLY_METRICS": address})
