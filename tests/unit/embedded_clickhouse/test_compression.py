"""Encoders: pieces in, one stream out, and back."""

import contextlib
import io
import os

import pytest

from pipeline.embedded.clickhouse.blocks import BlockEncoder, unblocked
from pipeline.embedded.clickhouse.compression import Chain, decoded, encoder, known
from pipeline.embedded.clickhouse.errors import ClickHouseError
from tests.kit.processes import resident_bytes

NAMES = ("gzip", "deflate", "zstd", "lz4", "br", "")
PIECES = [b"one ", b"", b"two " * 50_000, b"three"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_encoded_in_pieces_is_decoded_whole(name: str) -> None:
    coder = encoder(name)
    packed = b"".join(coder.compress(piece) for piece in PIECES) + coder.finish()
    assert b"".join(decoded(name, io.BytesIO(packed))) == b"".join(PIECES)


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4"])
def test_frames_one_after_the_other_are_one_body(name: str) -> None:
    packed = b""
    for piece in PIECES:
        coder = encoder(name)
        packed += coder.compress(piece) + coder.finish()
    assert b"".join(decoded(name, io.BytesIO(packed))) == b"".join(PIECES)


def test_a_chain_ends_each_of_its_links() -> None:
    coder = Chain(BlockEncoder(), encoder("gzip"))
    packed = b"".join(coder.compress(piece) for piece in PIECES) + coder.finish()
    assert b"".join(unblocked(decoded("gzip", io.BytesIO(packed)))) == b"".join(PIECES)


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "lz4", "br"])
@pytest.mark.parametrize("damage", ["cut", "nonsense"])
def test_a_damaged_body_is_refused(name: str, damage: str) -> None:
    coder = encoder(name)
    packed = coder.compress(b"hello" * 1000) + coder.finish()
    body = packed[:-5] if damage == "cut" else b"\xff\x00" * 20
    with pytest.raises(ClickHouseError) as caught:
        list(decoded(name, io.BytesIO(body)))
    assert caught.value.code == 271


def test_the_first_known_encoding_of_the_client_is_taken() -> None:
    assert known(("compress", "br", "gzip")) == "br"
    assert known(("compress",)) == ""


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "lz4", "br"])
def test_a_damaged_body_leaves_no_memory_behind(encoding: str) -> None:
    coder = encoder(encoding)
    body = bytearray(coder.compress(b"1\tabc\n" * 50) + coder.finish())
    body[len(body) // 2] ^= 0xFF
    del body[-4:]

    def read() -> None:
        with contextlib.suppress(ClickHouseError):
            for _ in decoded(encoding, io.BytesIO(bytes(body))):
                pass

    for _ in range(200):
        read()
    before = resident_bytes(os.getpid())
    for _ in range(2000):
        read()
    assert resident_bytes(os.getpid()) - before < 20 << 20
