"""Clients that misbehave hurt themselves only: others are served, and memory stays bounded."""

import random
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.integration.log.clients import Clients
from tests.integration.log.wire import API_VERSIONS, Wire
from tests.kit.brokers import Broker
from tests.kit.processes import resident_bytes

MEGABYTE = 1_000_000
# A Java heap grows to its limit of 512 MB before it is swept, whatever the clients do.
GROWTH_BYTES = {"embedded": 100 * MEGABYTE, "kafka": 600 * MEGABYTE}


def serve_somebody(clients: Clients) -> None:
    """An honest client comes along and is served."""
    topic = clients.topic()
    values = [b"%d" % n for n in range(100)]
    clients.produce(topic, values)
    assert [message.value() for message in clients.read(topic, 100)] == values


@contextmanager
def bounded_memory(broker: Broker) -> Iterator[None]:
    """What happens inside must not make the same process grow beyond its bound."""
    pid, before = broker.pid, resident_bytes(broker.pid)
    yield
    assert broker.pid == pid
    assert resident_bytes(pid) - before < GROWTH_BYTES[broker.name]


@contextmanager
def connections(broker: Broker, count: int) -> Iterator[list[socket.socket]]:
    host, port = broker.bootstrap.split(":")
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for _ in range(count)
        ]


def send_what_is_taken(connection: socket.socket, data: bytes) -> None:
    """Send until done or until the broker has had enough."""
    try:
        connection.sendall(data)
    except (ConnectionError, TimeoutError):
        return


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker closes the connection within the socket's time-out."""
    try:
        while connection.recv(65_536):
            continue
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_garbage_is_answered_by_closing(broker: Broker, clients: Clients) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    with bounded_memory(broker), connections(broker, 30) as opened:
        for connection in opened:
            send_what_is_taken(connection, source.randbytes(source.randrange(5, 5000)))
        serve_somebody(clients)
    serve_somebody(clients)


@pytest.mark.parametrize(
    "first_bytes",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["2 GB", "minus one", "minus 2 GB", "HTTP", "TLS"],
)
def test_an_impossible_length_closes_the_connection(
    broker: Broker, clients: Clients, first_bytes: bytes
) -> None:
    with bounded_memory(broker), connections(broker, 5) as opened:
        for connection in opened:
            send_what_is_taken(connection, first_bytes + bytes(MEGABYTE))
        assert all(is_closed(connection) for connection in opened)
        serve_somebody(clients)


def test_half_requests_hold_nobody_up(broker: Broker, clients: Clients) -> None:
    request = struct.pack(">ihhi", 1000, API_VERSIONS, 0, 1)
    with bounded_memory(broker), connections(broker, 50) as opened:
        for position, connection in enumerate(opened):
            connection.sendall(request[: 1 + position % len(request)])
        serve_somebody(clients)
        for connection in opened[::2]:
            connection.close()
        serve_somebody(clients)


def test_a_request_in_many_pieces_is_still_one_request(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        body = struct.pack(">hhi", API_VERSIONS, 0, 77) + struct.pack(">h", -1)
        for byte in struct.pack(">i", len(body)) + body:
            wire.socket.sendall(bytes([byte]))
        assert wire.receive().take("h") == 0


@pytest.mark.parametrize(("api", "version"), [(9999, 0), (3, 999), (0, 999), (-1, 0)])
def test_an_unknown_request_ends_at_worst_its_own_connection(
    broker: Broker, clients: Clients, api: int, version: int
) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send(api, version, b"")
        with suppress(ConnectionError):
            wire.receive()
        serve_somebody(clients)


def test_a_body_that_does_not_parse_ends_at_worst_its_own_connection(
    broker: Broker, clients: Clients
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    with bounded_memory(broker):
        for api in [*range(4), *range(8, 23), 32, 37, 42, 44, 60]:
            with Wire(broker.bootstrap) as wire:
                wire.socket.settimeout(0.2)
                wire.send(api, source.randrange(5), source.randbytes(200))
                try:
                    wire.receive()
                except (ConnectionError, TimeoutError):
                    continue
        serve_somebody(clients)


def test_a_thousand_idle_connections_hold_nobody_up(broker: Broker, clients: Clients) -> None:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with bounded_memory(broker), connections(broker, 1000) as opened:
        serve_somebody(clients)
        opened[-1].sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, 5, -1))
        assert opened[-1].recv(8)[4:] == struct.pack(">i", 5)
    serve_somebody(clients)


def test_a_reader_that_never_reads_holds_nobody_up(broker: Broker, clients: Clients) -> None:
    """Many answers are asked for and none is taken: the broker must not pile them up."""
    topic = clients.topic()
    clients.produce(topic, [bytes(500_000)] * 20)
    name = struct.pack(">h", len(topic)) + topic.encode()
    partition = struct.pack(">iqi", 0, 0, 50 * MEGABYTE)
    fetch = struct.pack(">iiiib", -1, 100, 1, 50 * MEGABYTE, 0)
    fetch += struct.pack(">i", 1) + name + struct.pack(">i", 1) + partition
    with bounded_memory(broker), Wire(broker.bootstrap) as wire:
        wire.socket.settimeout(1)
        with suppress(TimeoutError):
            for _ in range(60):
                wire.send(1, 4, fetch)
        serve_somebody(clients)
