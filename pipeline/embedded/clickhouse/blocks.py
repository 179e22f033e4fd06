"""ClickHouse's own compressed blocks, which `compress=1` and `decompress=1` ask for on HTTP.

A block: checksum (16 bytes), then method, size with this 9-byte header, size of the data, the data.
"""

import struct
from collections.abc import Iterable, Iterator

import cramjam
from clickhouse_cityhash.cityhash import CityHash128

from pipeline.embedded.clickhouse import errors

_HEADER = struct.Struct("<BII")
_CHECKSUM = struct.Struct("<QQ")
_CHECKSUM_BYTES = _CHECKSUM.size
_NONE, _LZ4, _ZSTD = 0x02, 0x82, 0x90
BLOCK_BYTES_MAX = 1 << 20
# ClickHouse refuses blocks above 1 GiB; nothing sane on HTTP comes near a tenth of it.
READ_BLOCK_BYTES_MAX = 128 << 20


def checksum(body: bytes) -> bytes:
    """The 16 bytes before a block: two numbers, each with its low byte first."""
    high, low = divmod(CityHash128(body), 1 << 64)
    return _CHECKSUM.pack(high, low)


class BlockEncoder:
    """An `Encoder` (compression.py) that writes LZ4 blocks."""

    def compress(self, chunk: bytes) -> bytes:
        starts = range(0, len(chunk), BLOCK_BYTES_MAX)
        return b"".join(_block(chunk[at : at + BLOCK_BYTES_MAX]) for at in starts)

    def finish(self) -> bytes:
        return b""


def _block(data: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    body = _HEADER.pack(_LZ4, len(packed) + _HEADER.size, len(data)) + packed
    return checksum(body) + body


def unblocked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of blocks that arrive in pieces of any size; raises ClickHouseError when damaged."""
    buffer = bytearray()
    lead = _CHECKSUM_BYTES + _HEADER.size
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= lead:
            method, packed_bytes, data_bytes = _HEADER.unpack_from(buffer, _CHECKSUM_BYTES)
            if not _HEADER.size <= packed_bytes <= READ_BLOCK_BYTES_MAX >= data_bytes:
                raise errors.refusal(
                    errors.CANNOT_DECOMPRESS,
                    "Wrong size of a compressed block: most likely corrupted data",
                )
            end = _CHECKSUM_BYTES + packed_bytes
            if len(buffer) < end:
                break
            yield _unpacked(bytes(buffer[:end]), method, data_bytes)
            del buffer[:end]
    if buffer:
        raise errors.refusal(
            errors.CANNOT_READ_ALL_DATA, "Cannot read all data of a compressed block"
        )


def _unpacked(block: bytes, method: int, data_bytes: int) -> bytes:
    body = block[_CHECKSUM_BYTES:]
    if checksum(body) != block[:_CHECKSUM_BYTES]:
        raise errors.refusal(errors.CHECKSUM_DOESNT_MATCH, "Checksum doesn't match: corrupted data")
    packed = body[_HEADER.size :]
    try:
        if method == _LZ4:
            return bytes(cramjam.lz4.decompress_block(packed, output_len=data_bytes))
        if method == _ZSTD:
            # Into as much room as the header says, and no more, whatever the data would fill.
            room = bytearray(data_bytes)
            filled = cramjam.zstd.decompress_into(packed, room)
            return bytes(memoryview(room)[:filled])
    except cramjam.DecompressionError as error:
        raise errors.refusal(errors.CANNOT_DECOMPRESS, f"Cannot decompress: {error}") from None
    if method == _NONE:
        return packed
    raise errors.refusal(errors.UNKNOWN_COMPRESSION_METHOD, f"Unknown codec family code: {method}")
