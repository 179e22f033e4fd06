"""The proxy passes everything on, until it is told to harm."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests.kit.proxy import HOST, Proxy

TIMEOUT_S = 10


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Before a server that sends back whatever comes."""
    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        with Proxy(server.getsockname()[1]) as made:
            yield made


def _echo(server: socket.socket) -> None:
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(peer,), daemon=True).start()


def _answer(peer: socket.socket) -> None:
    with peer, contextlib.suppress(OSError):
        while data := peer.recv(1 << 16):
            peer.sendall(data)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=TIMEOUT_S)


def received(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := peer.recv(1 << 16)):
        data += more
    return data


def test_everything_is_passed_on(proxy: Proxy) -> None:
    sent = bytes(range(256)) * 4000
    with connect(proxy) as peer:
        threading.Thread(target=peer.sendall, args=(sent,), daemon=True).start()
        assert received(peer, len(sent)) == sent


def test_a_cut_ends_connections_and_new_ones_are_passed_on(proxy: Proxy) -> None:
    with connect(proxy) as peer:
        peer.sendall(b"one")
        assert received(peer, 3) == b"one"
        proxy.cut()
        with contextlib.suppress(ConnectionResetError):
            assert received(peer, 1) == b""
    with connect(proxy) as peer:
        peer.sendall(b"two")
        assert received(peer, 3) == b"two"


def test_a_tear_passes_half_on_and_ends_connections(proxy: Proxy) -> None:
    with connect(proxy) as peer:
        peer.sendall(b"one")
        assert received(peer, 3) == b"one"
        proxy.tear()
        peer.sendall(b"1234567890")
        with contextlib.suppress(ConnectionResetError):
            assert len(received(peer, 10)) <= 5


def test_a_delay_holds_back_and_a_stall_until_it_flows(proxy: Proxy) -> None:
    with connect(proxy) as peer:
        proxy.delay(0.2)
        began_s = time.monotonic()
        peer.sendall(b"one")
        assert received(peer, 3) == b"one"
        assert time.monotonic() - began_s >= 0.4  # there and back
        proxy.delay(0)
        proxy.stall()
        time.sleep(0.1)
        peer.sendall(b"two")
        peer.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.recv(3)
        proxy.flow()
        peer.settimeout(TIMEOUT_S)
        assert received(peer, 3) == b"two"


def test_a_reset_by_one_side_reaches_the_other() -> None:
    """It was kept from who waits for an answer, as long as that had patience."""
    linger_not = struct.pack("ii", 1, 0)
    with socket.create_server((HOST, 0)) as server, Proxy(server.getsockname()[1]) as proxy:
        with connect(proxy) as peer:
            behind, _ = server.accept()
            behind.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
            behind.close()
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
        peer = connect(proxy)
        behind, _ = server.accept()
        with behind:
            behind.settimeout(TIMEOUT_S)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
            peer.close()
            with pytest.raises(ConnectionResetError):
                behind.recv(1)


def test_where_nothing_listens_behind_a_connection_is_ended() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    # It may come while the connection is being made.
    reset = contextlib.suppress(ConnectionResetError)
    with Proxy(port) as proxy, reset, connect(proxy) as peer:
        assert peer.recv(1) == b""


def test_closing_amid_connections_tells_of_no_error(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(proxy) as peer:
        peer.sendall(b"before")
        assert received(peer, 6) == b"before"
        proxy.close()
    assert caplog.records == []
