"""Produce, versions 3 to 8, by hand: records stay where the connection's buffer has them."""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.protocol.bounds import ITEMS_MAX
from pipeline.errors import BadInputError

VERSION_MIN = 3
VERSION_MAX = 8

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqq")


class PartitionRecords(NamedTuple):
    """What is to be appended to one partition; `records` is a writable view, or None."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    parts: list[PartitionRecords]


class PartitionResult(NamedTuple):
    """What became of one partition's records. Times and offsets are -1 where there are none."""

    topic: str
    partition: int
    code: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1
    start_offset: int = -1
    message: str | None = None


def read_request(frame: memoryview, at: int) -> ProduceRequest:
    """Raises BadInputError when the bytes are not a Produce request."""
    try:
        transactional_id, at = _string(frame, at)
        acks, _timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
        parts = list(islice(_parts(frame, at + _ACKS_TIMEOUT.size), ITEMS_MAX + 1))
    except (struct.error, UnicodeDecodeError):
        raise BadInputError("a malformed Produce request") from None
    if len(parts) > ITEMS_MAX:
        raise BadInputError(f"a Produce request with more than {ITEMS_MAX} partitions")
    return ProduceRequest(transactional_id, acks, parts)


def _parts(frame: memoryview, at: int) -> Iterator[PartitionRecords]:
    (topics,) = _I32.unpack_from(frame, at)
    at += 4
    for _ in range(topics):
        topic, at = _string(frame, at)
        (partitions,) = _I32.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            partition, size = _PARTITION.unpack_from(frame, at)
            at += _PARTITION.size
            if at + max(size, 0) > len(frame):
                raise BadInputError("a Produce request that ends inside its records")
            yield PartitionRecords(
                topic or "", partition, frame[at : at + size] if size >= 0 else None
            )
            at += max(size, 0)


def _string(frame: memoryview, at: int) -> tuple[str | None, int]:
    (size,) = _I16.unpack_from(frame, at)
    at += 2
    if size < 0:
        return None, at
    return str(frame[at : at + size], "utf-8"), at + size


def write_answer(version: int, correlation_id: int, results: list[PartitionResult]) -> bytes:
    """The response, without its length."""
    by_topic: dict[str, list[PartitionResult]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(result)
    out = [_I32.pack(correlation_id), _I32.pack(len(by_topic))]
    for topic, parts in by_topic.items():
        name = topic.encode()
        out += (_I16.pack(len(name)), name, _I32.pack(len(parts)))
        for part in parts:
            out.append(
                _RESULT.pack(part.partition, part.code, part.base_offset, part.append_time_ms)
            )
            if version >= 5:
                out.append(struct.pack(">q", part.start_offset))
            if version >= 8:
                message = part.message.encode() if part.message is not None else b""
                size = len(message) if part.message is not None else -1
                out += (_I32.pack(0), _I16.pack(size), message)
    out.append(_I32.pack(0))
    return b"".join(out)
