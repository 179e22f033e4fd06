"""Payloads of sketches under a right checksum, without which hardly any input gets past it."""

from __future__ import annotations

import struct
import zlib

_HEAD = struct.Struct("<2scBI")


def sealed(kind: bytes, data: bytes) -> bytes:
    """The rest of the data as a sketch of this kind, version 1, if its first byte is 0; else as
    it is."""
    if data[:1] != b"\0":
        return data[1:]
    payload = data[1:]
    return _HEAD.pack(b"TS", kind, 1, zlib.crc32(payload, zlib.crc32(kind))) + payload


def seed_of(written: bytes) -> bytes:
    """A sketch's bytes as an input: its payload, to be sealed again."""
    return b"\0" + written[_HEAD.size :]
