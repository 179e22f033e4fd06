"""Bodies of requests to the ClickHouse door: HTTP's encodings, and ClickHouse's own blocks."""

from __future__ import annotations

import gzip
import io
import struct
import zlib

import cramjam

from pipeline.embedded.clickhouse.blocks import BlockEncoder, checksum, unblocked
from pipeline.embedded.clickhouse.compression import CHUNK_BYTES, decoded
from pipeline.embedded.clickhouse.errors import ClickHouseError

PROMISE = "the body again, a piece at a time, or ClickHouse's error with its number"

_ENCODINGS = ("", "deflate", "gzip", "zstd", "lz4", "br", "identity", "unknown")
_BLOCKS = len(_ENCODINGS)
_MADE_RIGHT = _BLOCKS + 1
_HEADER = struct.Struct("<BII")
_READ_BYTES_MAX = 32 << 20
_PIECE_BYTES_MAX = 130 << 20
_BODY = b"1\tabc\n" * 50


def seeds() -> list[bytes]:
    packed = [
        _BODY,
        zlib.compress(_BODY),
        gzip.compress(_BODY),
        bytes(cramjam.zstd.compress(_BODY)),
        bytes(cramjam.lz4.compress(_BODY)),
        bytes(cramjam.brotli.compress(_BODY)),
    ]
    blocks = BlockEncoder().compress(_BODY)
    zstd = bytes(cramjam.zstd.compress(_BODY))
    bomb = bytes(cramjam.zstd.compress(bytes(256 << 20)))
    assert len(bomb) < 16_000
    return [
        *(bytes([number]) + body for number, body in enumerate(packed)),
        bytes([_BLOCKS]) + blocks + blocks,
        bytes([_MADE_RIGHT]) + blocks[16:],
        bytes([_MADE_RIGHT]) + _HEADER.pack(0x90, len(zstd) + 9, len(_BODY)) + zstd,
        bytes([_MADE_RIGHT]) + _HEADER.pack(0x90, len(bomb) + 9, 100) + bomb,
        bytes([_MADE_RIGHT]) + _HEADER.pack(0x82, 19, 128 << 20) + b"x" * 10,
        bytes([_MADE_RIGHT]) + _HEADER.pack(0x02, 19, 10) + b"x" * 10,
    ]


def check(data: bytes) -> None:
    """The first byte chooses how the rest is read; blocks also with a checksum that is right."""
    how, body = data[0] % (_MADE_RIGHT + 1) if data else 0, data[1:]
    if how == _MADE_RIGHT:
        head = body[: _HEADER.size].ljust(_HEADER.size, b"\0")
        method, _, size = _HEADER.unpack(head)
        body = _HEADER.pack(method, max(len(body), _HEADER.size), size) + body[_HEADER.size :]
        body = checksum(body) + body
    cut = [body[at : at + 100] for at in range(0, len(body), 100)]
    pieces = unblocked(cut) if how >= _BLOCKS else decoded(_ENCODINGS[how], io.BytesIO(body))
    limit = _PIECE_BYTES_MAX if how >= _BLOCKS else CHUNK_BYTES + 1024
    read = 0
    try:
        for piece in pieces:
            assert len(piece) <= limit
            read += len(piece)
            if read > _READ_BYTES_MAX:
                break
    except ClickHouseError as error:
        assert str(error)
