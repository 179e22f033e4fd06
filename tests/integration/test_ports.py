"""A port is kept for a process that does not run yet, without being in its way."""

import socket
from contextlib import closing

import pytest

from pipeline.local.ports import kept_port

HOST = "127.0.0.1"


def taken_by_chance(port: int) -> bool:
    """Whether somebody without a claim could have it; such a bind is what port 0 looks for."""
    with socket.socket() as other:
        try:
            other.bind((HOST, port))
        except OSError:
            return False
    return True


def listens(port: int) -> socket.socket:
    return socket.create_server((HOST, port))


def test_nobody_is_given_a_kept_port_before_and_after_its_process_runs() -> None:
    with kept_port(HOST, 0) as port:
        assert not taken_by_chance(port)
        for _ in range(2):
            with closing(listens(port)):
                assert not taken_by_chance(port)
            assert not taken_by_chance(port)
    assert taken_by_chance(port)


def test_who_connects_while_nobody_listens_is_refused_at_once() -> None:
    with kept_port(HOST, 0) as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=5)


def test_a_port_is_kept_by_its_number_unless_somebody_listens_there() -> None:
    with kept_port(HOST, 0) as port:
        pass
    with kept_port(HOST, port) as kept:
        assert kept == port
    with closing(listens(0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use"), kept_port(HOST, port):
            pass
    with kept_port(HOST, port):
        assert not taken_by_chance(port)


def test_many_kept_ports_are_different_ones() -> None:
    with kept_port(HOST, 0) as one, kept_port(HOST, 0) as other:
        assert one != other
