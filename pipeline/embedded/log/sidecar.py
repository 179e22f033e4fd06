"""What is known of a closed segment, in a small file beside it: a start need not read it all.

It is written only after the segment itself is on the disk: a sidecar vouches for its segment.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.embedded.log.producers import Snapshot

if TYPE_CHECKING:
    from pipeline.embedded.log.segment import Segment


VERSION = 1


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


_decoder = msgspec.msgpack.Decoder(Sidecar)


def load(path: Path, segment_size: int) -> Sidecar | None:
    """The sidecar, or None when there is none that fits a segment of this size.

    One of another version says nothing: its segment is read instead.
    """
    try:
        sidecar = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return sidecar if (sidecar.size, sidecar.version) == (segment_size, VERSION) else None


def save(path: Path, sidecar: Sidecar) -> None:
    """Replace the file in one step. May raise OSError.

    It is not synced: one that a power cut spoils does not decode, and costs a read of its segment.
    """
    write_part(path, sidecar).rename(path)


def write_part(path: Path, sidecar: Sidecar) -> Path:
    """The first half of `save`: a file that is to be renamed to `path`. May raise OSError."""
    part = path.with_suffix(".meta.part")
    part.write_bytes(msgspec.msgpack.encode(sidecar))
    return part
