"""HTTP compression, both ways, a piece at a time."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

import cramjam
import pyarrow as pa

from pipeline.embedded.clickhouse import errors

_GZIP_WINDOW = 31
_LEVEL = 3
CHUNK_BYTES = 1 << 20
_ARROW_NAMES = {"gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "br": "brotli"}


class Encoder(Protocol):
    """A running compression of one answer."""

    def compress(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes:
        """What is left, and the end mark."""
        ...


class Identity:
    """No compression."""

    def compress(self, chunk: bytes) -> bytes:
        return chunk

    def finish(self) -> bytes:
        return b""


class Chain:
    """Encoders one after the other."""

    def __init__(self, *encoders: Encoder) -> None:
        self._encoders = encoders

    def compress(self, chunk: bytes) -> bytes:
        for encoder in self._encoders:
            chunk = encoder.compress(chunk)
        return chunk

    def finish(self) -> bytes:
        rest = b""
        for encoder in self._encoders:
            rest = encoder.compress(rest) + encoder.finish() if rest else encoder.finish()
        return rest


class _Zlib:
    def __init__(self, window: int) -> None:
        self._state = zlib.compressobj(_LEVEL, zlib.DEFLATED, window)

    def compress(self, chunk: bytes) -> bytes:
        return self._state.compress(chunk)

    def finish(self) -> bytes:
        return self._state.flush()


class _Cramjam:
    def __init__(self, state: Any) -> None:
        self._state = state

    def compress(self, chunk: bytes) -> bytes:
        self._state.compress(chunk)
        return bytes(self._state.flush())

    def finish(self) -> bytes:
        return bytes(self._state.finish())


_ENCODERS: dict[str, Callable[[], Encoder]] = {
    "zstd": lambda: _Cramjam(cramjam.zstd.Compressor(_LEVEL)),
    "lz4": lambda: _Cramjam(cramjam.lz4.Compressor()),
    "gzip": lambda: _Zlib(_GZIP_WINDOW),
    "deflate": lambda: _Zlib(zlib.MAX_WBITS),
    "br": lambda: _Cramjam(cramjam.brotli.Compressor(_LEVEL)),
}


def known(accepted: tuple[str, ...]) -> str:
    """The first of the client's encodings that is spoken here; empty for none."""
    return next((name for name in accepted if name in _ENCODERS), "")


def encoder(name: str) -> Encoder:
    """A new compression; none for the empty name."""
    return _ENCODERS[name]() if name else Identity()


def decoded(encoding: str, body: BinaryIO) -> Iterator[bytes]:
    """A body as it was before its Content-Encoding; raises ClickHouseError when it cannot be.

    pyarrow reads frames set one after the other, as clients that compress block by block send them.
    """
    if encoding in ("", "identity"):
        yield from iter(lambda: body.read(CHUNK_BYTES), b"")
    elif encoding == "deflate":
        yield from _inflated(body)
    elif encoding in _ARROW_NAMES:
        try:
            with pa.CompressedInputStream(body, _ARROW_NAMES[encoding]) as stream:
                # Its `read` loses the memory that it made for the answer when the body is damaged.
                room = bytearray(CHUNK_BYTES)
                while filled := stream.readinto(room):
                    yield bytes(memoryview(room)[:filled])
        except OSError as error:
            raise errors.refusal(errors.CANNOT_DECOMPRESS, f"Cannot decompress: {error}") from None
    else:
        raise errors.refusal(errors.NOT_IMPLEMENTED, f"Unknown compression method: {encoding}")


def _inflated(body: BinaryIO) -> Iterator[bytes]:
    state = zlib.decompressobj()
    try:
        while piece := body.read(CHUNK_BYTES):
            while piece:
                yield state.decompress(piece, CHUNK_BYTES)
                piece = state.unconsumed_tail
        yield state.flush()
    except zlib.error as error:
        raise errors.refusal(errors.CANNOT_DECOMPRESS, f"Cannot decompress: {error}") from None
    if not state.eof:
        raise errors.refusal(errors.CANNOT_DECOMPRESS, "Cannot decompress: the body is cut short")
