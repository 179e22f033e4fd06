"""Files of a partition as a start finds them: a closed segment, its sidecar, the segment after it.

An input is a MessagePack list: the sidecar's bytes or nothing, then batches of the closed segment,
each as bytes as they are, or in a list of its own to be made whole first, with a right checksum.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from crc32c import crc32c

from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.segment import segment_path
from pipeline.embedded.log.sidecar import save, sidecar_of
from pipeline.embedded.log.topic_config import TopicConfig
from tests.kit.whole_partitions import all_of
from tests.unit.embedded_log.batches import make_batch

PROMISE = "what is whole up to the first damage is read, and what comes next is stored after it"

_NOW_MS = 1_790_000_000_000
_NEXT = 1_000
"""The name of the second segment."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PARTS_MAX = 20
_FETCH_BYTES = 300
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()

logging.getLogger("pipeline.embedded.log.recovery").setLevel(logging.CRITICAL)


def seeds() -> list[bytes]:
    first, second, third = _batch(0), _batch(2), _batch(990)
    known = _sidecar(first, second)
    return [
        _encode([None, first, second]),
        _encode([known, first, second]),
        _encode([known, first, [second[:70]]]),
        _encode([None, [first], [second], [third], b"\0" * 100]),
        _encode([None, first, first, second[:-1]]),
        _encode([known[:-40] + bytes(40), first, second]),
        _encode([b"\x88", first, struct.pack(">q", 5000) + second[8:]]),
        # Found: an index whose bytes are no whole numbers ended the start, and one that led into
        # the middle of a batch was believed.
        _encode([_spoilt(known, index=(b"abc", b"", b"")), first, second]),
        _encode([_spoilt(known, index=(bytes(8), b"\x07" + bytes(7), bytes(8))), first, second]),
    ]


def _batch(offset: int) -> bytes:
    batch = make_batch([(b"k", b"v"), (None, b"w")], producer_id=7, epoch=0, sequence=offset)
    return struct.pack(">q", offset) + bytes(batch[8:])


def _sidecar(*batches: bytes) -> bytes:
    with _room() as room:
        segment_path(room, 0).write_bytes(b"".join(batches))
        partition = _opened(room)
        closed = partition.segments[0]
        save(closed.sidecar_path, sidecar_of(closed, partition.producers.snapshot()))
        partition.close()
        return closed.sidecar_path.read_bytes()


def _spoilt(known: bytes, **changes: object) -> bytes:
    """With the checksum of what it was."""
    return known[:4] + _encode({**_decoder.decode(known[4:]), **changes})


def check(data: bytes) -> None:
    sidecar, segment = _files(data)
    whole = _whole(segment)
    with _room() as room:
        segment_path(room, 0).write_bytes(segment)
        segment_path(room, _NEXT).write_bytes(_batch(_NEXT))
        if sidecar is not None and not _is_anothers(sidecar, segment):
            segment_path(room, 0).with_suffix(".meta").write_bytes(sidecar)
        partition = _opened(room)
        try:
            assert all_of(partition, _FETCH_BYTES) == whole + _batch(_NEXT)
            partition.newest()
            appended = partition.append(make_batch([(b"k", b"x")]), _NOW_MS)
            assert appended.base_offset == _NEXT + 2
            assert len(all_of(partition, _FETCH_BYTES)) > len(whole) + len(_batch(_NEXT))
        finally:
            partition.close()


def _is_anothers(sidecar: bytes, segment: bytes) -> bool:
    """Whether it is whole, and so vouches, but not for this segment: no start finds such a pair.
    What a disk does to a segment later is told to its readers by the batches' checksums."""
    is_whole = struct.pack(">I", crc32c(sidecar[4:])) == sidecar[:4]
    return is_whole and segment != _batch(0) + _batch(2)


def _whole(segment: bytes) -> bytes:
    """The batches before the first that is damaged, told here by Kafka's own definition."""
    at, following = 0, 0
    while len(segment) - at >= _HEADER.size:
        offset, length, _, magic, crc, _, delta, *_ = _HEADER.unpack_from(segment, at)
        end = at + 12 + length
        if magic != 2 or length < _HEADER.size - 12 or end > len(segment):
            break
        if not following <= offset <= offset + delta < _NEXT:
            break
        if crc32c(segment[at + 21 : end]) != crc:
            break
        at, following = end, offset + delta + 1
    return segment[:at]


def _opened(folder: Path) -> Partition:
    return Partition(folder, TopicConfig({}), 0, _NOW_MS, lambda *_: None)


def _files(data: bytes) -> tuple[bytes | None, bytes]:
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = [None, data]
    sidecar, *batches = [*(found if isinstance(found, list) else [None, found]), b""][:_PARTS_MAX]
    return sidecar if isinstance(sidecar, bytes) else None, b"".join(map(_bytes, batches))


def _bytes(part: object) -> bytes:
    if isinstance(part, list):
        return _made_whole(b"".join(map(_bytes, part[:1])))
    return part if isinstance(part, bytes) else repr(part).encode()


def _made_whole(raw: bytes) -> bytes:
    batch = bytearray(raw.ljust(_HEADER.size, b"\0"))
    batch[16] = 2
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


@contextlib.contextmanager
def _room() -> Iterator[Path]:
    """A folder, in memory where that is to be had."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
