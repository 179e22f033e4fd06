"""The bytes of a sketch: what it is, which version, a checksum, then its own payload.

    "TS"  kind: 1 byte  version: 1 byte  CRC-32 of the rest: 4 bytes, little end first  payload

Nothing is made of a payload before its checksum is right, and nobody hands it to foreign code: what
is in it is read as plain numbers whose ranges are checked.
"""

from __future__ import annotations

import struct
import zlib

from pipeline.errors import BadInputError

_HEAD = struct.Struct("<2scBI")
_MAGIC = b"TS"


def seal(kind: bytes, version: int, payload: bytes) -> bytes:
    """A payload with its head. `kind` is one byte that no other sketch uses."""
    return _HEAD.pack(_MAGIC, kind, version, zlib.crc32(payload, zlib.crc32(kind))) + payload


def unseal(kind: bytes, version: int, sealed: bytes, name: str) -> bytes:
    """The payload again; raises BadInputError that says what is wrong with the bytes."""
    if len(sealed) < _HEAD.size:
        raise BadInputError(f"not a {name} sketch: {len(sealed)} bytes are too few")
    magic, found_kind, found_version, checksum = _HEAD.unpack_from(sealed)
    if magic != _MAGIC or found_kind != kind:
        raise BadInputError(f"not a {name} sketch: its bytes begin with {sealed[:3]!r}")
    if found_version != version:
        raise BadInputError(
            f"a {name} sketch of version {found_version}, this program reads version {version}: "
            "rebuild it from the log"
        )
    payload = sealed[_HEAD.size :]
    if zlib.crc32(payload, zlib.crc32(kind)) != checksum:
        raise BadInputError(f"a damaged {name} sketch: its checksum is wrong; read it again")
    return payload


def pack(content: bytes) -> bytes:
    """Compressed, for tables that are mostly zeros while little is counted."""
    return zlib.compress(content, 1)


def unpack(packed: bytes, size: int, name: str) -> bytes:
    """Exactly `size` bytes again, never more in memory; raises BadInputError for anything else."""
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(packed, size + 1)
    except zlib.error as error:
        raise BadInputError(f"a damaged {name} sketch: {error}; read it again") from error
    if len(content) != size or not reader.eof or reader.unused_data:
        raise BadInputError(f"a damaged {name} sketch: its content has another size than it says")
    return content
