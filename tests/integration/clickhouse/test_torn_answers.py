"""An answer that breaks off is no answer, wherever it breaks off."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from clickhouse_connect.driver import Client, httputil
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httpclient import HttpClient

from pipeline.clickhouse import connect
from pipeline.errors import TryAgainError
from tests.integration.clickhouse.process import ClickHouse

EVERYTHING = 1 << 20
TWO_HEADS = 1_500
"""The first two answers of a handshake have fewer bytes than that, but for the second's body."""

TIMEOUT_S = 10


class Relay:
    """Passes connections on to ClickHouse; of what is answered on each only so many bytes, and then
    it ends the connection in order, as a server does that ends."""

    def __init__(self, port: int) -> None:
        self.bytes_max = EVERYTHING
        self.seen = 0
        """How much was answered on the connection that was used last."""
        self._behind = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                front, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(front,), daemon=True).start()

    def _pass_on(self, front: socket.socket) -> None:
        with front, socket.create_connection(("127.0.0.1", self._behind), TIMEOUT_S) as behind:
            front.settimeout(TIMEOUT_S)
            asking = threading.Thread(target=self._ask, args=(front, behind), daemon=True)
            asking.start()
            passed_on = 0
            try:
                while data := behind.recv(1 << 16):
                    self.seen = passed_on + len(data)
                    front.sendall(data[: self.bytes_max - passed_on])
                    if self.seen > self.bytes_max:
                        front.shutdown(socket.SHUT_RDWR)
                        return
                    passed_on = self.seen
            except OSError:
                return

    def _ask(self, front: socket.socket, behind: socket.socket) -> None:
        try:
            while data := front.recv(1 << 16):
                behind.sendall(data)
        except OSError:
            return


@contextmanager
def relay(door: ClickHouse) -> Iterator[Relay]:
    found = Relay(door.port)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda client: client.query("SELECT number FROM numbers(3)").result_columns, [[0, 1, 2]]),
        (lambda client: client.command("SELECT 7"), 7),
    ],
    ids=["query", "command"],
)
def test_a_question_is_never_answered_by_less_than_the_answer(
    door: ClickHouse, ask: Callable[[Client], object], answer: object
) -> None:
    """It was: by nothing, which for a question is that there is none."""
    with relay(door) as between:
        client = connect(f"http://{door.host}:{between.port}")
        assert isinstance(client, HttpClient)
        try:
            for size in count(1):
                between.bytes_max = size
                client.http.clear()  # The next question has a connection of its own.
                try:
                    found = ask(client)
                except ClickHouseError:
                    assert between.seen > size, "a whole answer was refused"
                else:
                    # How long the head is differs from answer to answer.
                    assert between.seen <= size, f"{found} by {size} of {between.seen} bytes"
                    break
            assert found == answer
        finally:
            client.close()


def test_a_handshake_knows_all_settings_or_is_none(
    door: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was cut off within its second answer's head took ClickHouse for one without any."""
    refused = 0
    with relay(door) as between:
        for size in range(1, TWO_HEADS, 7):
            between.bytes_max = size
            # As in a process that connects for the first time: nothing is demanded of it yet.
            monkeypatch.setattr(httputil, "_default_pool_manager", httputil.get_pool_manager())
            try:
                client = connect(f"http://{door.host}:{between.port}")
            except TryAgainError:
                refused += 1
            else:
                settings = client.server_settings
                client.close()
                assert "max_threads" in settings, f"by {size} bytes"
        assert refused == len(range(1, TWO_HEADS, 7))
