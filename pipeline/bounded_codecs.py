"""Decompression of record batches that ends at a bound. aiokafka's own ends with the memory.

A batch of a megabyte may say that it holds a terabyte, and no broker looks. Whoever reads such a
batch (a worker, `tally tail`, the embedded log) would die of it, for as long as the log has it.

The compiled and the plain reader of aiokafka find the decoders in their modules, which is where
they are replaced; these modules are private to it, which is why its version is bounded.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import cramjam
from aiokafka.record import default_records

from pipeline.errors import BadInputError

UNPACKED_BYTES_MAX = 128 << 20
"""Of one batch: twice the largest frame."""

_GZIP_WINDOW = 31
_GZIP_GIVEN_BYTES = 4096
_LZ4_RATIO_MAX = 255
_ROOM_PER_BYTE = 16
_XERIAL_HEADER = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_INT = struct.Struct(">i")

# Of the zstd format, RFC 8878: no block, however small, unpacks to more than this.
_ZSTD_BLOCK_BYTES_MAX = 128 << 10
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPED = range(0x184D2A50, 0x184D2A60)
_ZSTD_BLOCKS_MAX = UNPACKED_BYTES_MAX // _ZSTD_BLOCK_BYTES_MAX
_ZSTD_RLE, _ZSTD_RESERVED = 1, 3
_ZSTD_ID_BYTES = (0, 1, 2, 4)
_ZSTD_SIZE_BYTES = (0, 2, 4, 8)


def gzip_decode(payload: Any) -> bytes:
    """All members one after the other. Raises BadInputError and zlib.error."""
    data, pieces, room = memoryview(bytes(payload)), [], UNPACKED_BYTES_MAX
    at = 0
    while at < len(data):
        piece, at = _gzip_member(data, at, room)
        pieces.append(piece)
        room -= len(piece)
        while at < len(data) and data[at] == 0:
            at += 1
    return b"".join(pieces)


def _gzip_member(data: memoryview, at: int, room: int) -> tuple[bytes, int]:
    """What the member at a place unpacks to, and where it ends.

    A reader keeps a copy of all that follows its member, so it is given a little at a time: to hand
    it the rest would cost the square of the number of members.
    """
    reader, pieces = zlib.decompressobj(_GZIP_WINDOW), []
    while not reader.eof:
        if at >= len(data):
            raise BadInputError("a gzip batch that is cut short")
        given = data[at : at + _GZIP_GIVEN_BYTES]
        at += len(given)
        piece = reader.decompress(given, room + 1)
        room -= len(piece)
        if room < 0:
            raise _too_much()
        pieces.append(piece)
    return b"".join(pieces), at - len(reader.unused_data)


def snappy_decode(payload: Any) -> bytes:
    """Of a block, or of the stream of blocks that Java clients write. Raises BadInputError and
    cramjam's errors."""
    data = bytes(payload)
    if not data.startswith(_XERIAL_HEADER):
        return _snappy_block(data, UNPACKED_BYTES_MAX)
    pieces, at, room = [], _XERIAL_HEADER_BYTES, UNPACKED_BYTES_MAX
    while at < len(data):
        if at + _INT.size > len(data):
            raise BadInputError("a snappy batch that is cut short")
        (size,) = _INT.unpack_from(data, at)
        at += _INT.size
        if not 0 <= size <= len(data) - at:
            raise BadInputError("a snappy batch that is cut short")
        pieces.append(_snappy_block(data[at : at + size], room))
        room -= len(pieces[-1])
        at += size
    return b"".join(pieces)


def _snappy_block(data: bytes, room: int) -> bytes:
    """The length is written in front; the decoder makes that much room before it looks on."""
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise _too_much()
    return bytes(cramjam.snappy.decompress_raw(data))


def lz4_decode(payload: Any) -> bytes:
    """Raises BadInputError and cramjam's errors."""
    if len(payload) * _LZ4_RATIO_MAX <= UNPACKED_BYTES_MAX:
        return bytes(cramjam.lz4.decompress(payload))
    return _into_room(cramjam.lz4, payload)


def zstd_decode(payload: Any) -> bytes:
    """Raises BadInputError and cramjam's errors."""
    data = bytes(payload)
    if _zstd_blocks(data) <= _ZSTD_BLOCKS_MAX:
        return bytes(cramjam.zstd.decompress(data))
    return _into_room(cramjam.zstd, data)


def _zstd_blocks(data: bytes) -> int:
    """How many blocks there are, by their heads alone, up to where the data makes no sense."""
    blocks, at = 0, 0
    while at + 5 <= len(data):
        (magic,) = struct.unpack_from("<I", data, at)
        if magic in _ZSTD_SKIPPED:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            break
        flags = data[at + 4]
        is_single = bool(flags & 0x20)
        size_bytes = _ZSTD_SIZE_BYTES[flags >> 6] or int(is_single)
        at += 5 + (not is_single) + _ZSTD_ID_BYTES[flags & 3] + size_bytes
        is_last = False
        while not is_last and at + 3 <= len(data) and blocks <= _ZSTD_BLOCKS_MAX:
            head = int.from_bytes(data[at : at + 3], "little")
            is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
            if kind == _ZSTD_RESERVED:
                return blocks
            at += 3 + (1 if kind == _ZSTD_RLE else size)
            blocks += 1
        if not is_last:
            return blocks
        at += 4 if flags & 4 else 0
    return blocks


def _into_room(codec: Any, payload: Any) -> bytes:
    """Into as much room as most need, then into all there may be."""
    for size in (min(len(payload) * _ROOM_PER_BYTE, UNPACKED_BYTES_MAX), UNPACKED_BYTES_MAX):
        room = bytearray(size)
        try:
            filled = codec.decompress_into(payload, room)
        except cramjam.DecompressionError:
            continue
        return bytes(memoryview(room)[:filled])
    raise _too_much()


def _too_much() -> BadInputError:
    return BadInputError(
        f"a batch that is damaged, or has more than {UNPACKED_BYTES_MAX} bytes when it is unpacked"
    )


DECODERS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
"""By the number that a batch's header has for its codec."""


def bound_decompression() -> None:
    """From now on aiokafka unpacks with these in this process. May be called again."""
    modules = {default_records.DefaultRecordBatch.__module__, default_records.__name__}
    for name in modules:
        module = __import__(name, fromlist=["_"])
        for decoder in DECODERS.values():
            assert hasattr(module, decoder.__name__), f"{name} has no {decoder.__name__}"
            setattr(module, decoder.__name__, decoder)
