"""What is known of a closed segment, in a small file beside it: a start need not read it all.

It is written only after the segment itself is on the disk: a sidecar vouches for its segment. So
it is a checksum and what that is of: one that is spoilt anywhere vouches for nothing.
"""

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from crc32c import crc32c

from pipeline.embedded.log.producers import Snapshot

if TYPE_CHECKING:
    from pipeline.embedded.log.segment import Segment


VERSION = 2
"""Without a checksum it was 1: such ones are passed over, and written anew."""

_CHECKSUM = struct.Struct(">I")


class Sidecar(msgspec.Struct):
    """`producers` is the state after the segment's last batch; `horizons_ms` says, by the base
    offset of a compacted batch, until when its tombstones are kept.
    """

    size: int
    next_offset: int
    max_timestamp_ms: int
    index: tuple[bytes, bytes, bytes]
    producers: Snapshot
    cleaned: bool = False
    horizons_ms: dict[int, int] = {}
    version: int = VERSION


def sidecar_of(segment: "Segment", producers: Snapshot) -> Sidecar:
    """What is to be kept of a closed segment."""
    return Sidecar(
        size=segment.size,
        next_offset=segment.next_offset,
        max_timestamp_ms=segment.max_timestamp_ms,
        index=segment.index.columns(),
        producers=producers,
        cleaned=segment.cleaned,
        horizons_ms=segment.horizons_ms,
    )


class _IndexAlone(msgspec.Struct):
    """What a lookup needs of a sidecar: to skip its producers costs less than to make them."""

    size: int
    index: tuple[bytes, bytes, bytes]
    version: int = VERSION


_Read = TypeVar("_Read", Sidecar, _IndexAlone)
_decoder = msgspec.msgpack.Decoder(Sidecar)
_index_decoder = msgspec.msgpack.Decoder(_IndexAlone)


def load(path: Path, segment_size: int) -> Sidecar | None:
    """The sidecar, or None when there is none that fits a segment of this size.

    One of another version says nothing: its segment is read instead.
    """
    return _fitting(path, segment_size, _decoder)


def load_index(path: Path, segment_size: int) -> tuple[bytes, bytes, bytes] | None:
    """The columns of its index alone; None as in `load`."""
    found = _fitting(path, segment_size, _index_decoder)
    return None if found is None else found.index


def _fitting(
    path: Path, segment_size: int, decoder: msgspec.msgpack.Decoder[_Read]
) -> _Read | None:
    try:
        checksum, written = _parted(path.read_bytes())
        if crc32c(written) != checksum:
            return None
        found = decoder.decode(written)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if (found.size, found.version) == (segment_size, VERSION) else None


def _parted(data: bytes) -> tuple[int, bytes]:
    """The checksum, -1 where there is none, and what it is of."""
    size = _CHECKSUM.size
    return _CHECKSUM.unpack_from(data)[0] if len(data) > size else -1, data[size:]


def save(path: Path, sidecar: Sidecar) -> None:
    """Replace the file in one step. May raise OSError.

    It is not synced: the checksum of one that a power cut spoils is wrong, which costs a read of
    its segment.
    """
    write_part(path, sidecar).rename(path)


def save_synced(path: Path, sidecar: Sidecar) -> None:
    """As `save`, for what no read of the segment gives back: it survives a power cut as soon as its
    name does, which is left to the caller. Blocks on the disk.
    """
    part = write_part(path, sidecar)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.rename(path)


def write_part(path: Path, sidecar: Sidecar) -> Path:
    """The first half of `save`: a file that is to be renamed to `path`. May raise OSError."""
    part = part_path(path)
    written = msgspec.msgpack.encode(sidecar)
    part.write_bytes(_CHECKSUM.pack(crc32c(written)) + written)
    return part


def part_path(path: Path) -> Path:
    """What `write_part` writes, whole or, where the disk refused, in part."""
    return path.with_suffix(".meta.part")
