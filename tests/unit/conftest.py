"""Unit tests are pure: one that opens a connection or a port fails."""

import socket
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> NoReturn:
        raise AssertionError("a unit test used a socket: it belongs into tests/integration")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
