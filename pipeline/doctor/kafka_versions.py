"""Which parts of the Kafka protocol a broker speaks: one question, before anybody logs in."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    import ssl

_TIMEOUT_S = 5.0
_API_VERSIONS = 18
_ANSWER_BYTES_MAX = 1 << 20
_ENTRY = struct.Struct(">hhh")


class Api(NamedTuple):
    """A request that Tally's clients send, in a version from `low` to `high`."""

    name: str
    key: int
    low: int
    high: int


# What aiokafka and librdkafka send of each; `low` is where Kafka's present record format begins.
NEEDED = (
    Api("Produce", 0, 3, 7),
    Api("Fetch", 1, 4, 11),
    Api("ListOffsets", 2, 1, 3),
    Api("Metadata", 3, 1, 5),
    Api("OffsetCommit", 8, 2, 3),
    Api("OffsetFetch", 9, 1, 3),
    Api("FindCoordinator", 10, 0, 1),
    Api("JoinGroup", 11, 2, 5),
    Api("Heartbeat", 12, 0, 1),
    Api("LeaveGroup", 13, 0, 1),
    Api("SyncGroup", 14, 0, 3),
    Api("CreateTopics", 19, 1, 3),
    Api("InitProducerId", 22, 0, 1),
    Api("DescribeConfigs", 32, 0, 2),
    Api("CreatePartitions", 37, 0, 1),
)


def spoken_versions(
    host: str, port: int, tls: ssl.SSLContext | None = None
) -> dict[int, tuple[int, int]]:
    """The least and the greatest version of each request the broker takes, by its key.

    Asks over a plain connection unless there is `tls`. Blocks a few seconds at most. Raises
    TryAgainError when nobody listens there, OperatorError when whoever does is no Kafka.
    """
    request = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)
    try:
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            tls.wrap_socket(plain, server_hostname=host) if tls else plain as connection,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 10 <= size <= _ANSWER_BYTES_MAX:
                raise OperatorError(
                    f"what listens on {host}:{port} is no Kafka, or one that wants TLS: "
                    "TALLY_KAFKA_SECURITY says how it is spoken to"
                )
            answer = _read(connection, size)
    except ConnectionRefusedError as error:
        raise TryAgainError(f"nobody listens on {host}:{port}") from error
    except OSError as error:
        raise TryAgainError(f"{host}:{port} does not answer as a Kafka does: {error}") from error
    return parse_versions(answer)


def parse_versions(answer: bytes) -> dict[int, tuple[int, int]]:
    """The versions in an answer to the question. Raises OperatorError for anything else. Pure."""
    _, error, count = struct.unpack_from(">ihi", answer)
    if error or not 0 <= count * _ENTRY.size <= len(answer) - 10:
        raise OperatorError("its answer to the question for versions is not Kafka's")
    entries = (_ENTRY.unpack_from(answer, 10 + number * _ENTRY.size) for number in range(count))
    return {key: (low, high) for key, low, high in entries}


def not_spoken(versions: dict[int, tuple[int, int]]) -> list[str]:
    """The requests Tally needs that a broker with these versions does not take. Pure."""
    missing = []
    for api in NEEDED:
        low, high = versions.get(api.key, (0, -1))
        if max(low, api.low) > min(high, api.high):
            missing.append(api.name)
    return missing


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionResetError("it closed the connection")
        found += part
    return found
