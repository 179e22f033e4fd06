"""The answer to Fetch, versions 4 to 11, by hand: batches go out as they lie in the file."""

import struct
from typing import NamedTuple

from kio.schema.errors import ErrorCode

VERSION_MIN = 4
VERSION_MAX = 11

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ihqq")
_START = struct.Struct(">q")
_NONE_AND_SIZE = struct.Struct(">ii")
_NONE_REPLICA_AND_SIZE = struct.Struct(">iii")


class PartitionData(NamedTuple):
    """One partition's share of an answer; `offsets` is how many of them the records cover."""

    partition: int
    code: ErrorCode
    end_offset: int = -1
    start_offset: int = -1
    records: bytes = b""
    offsets: int = 0


def write_answer(
    version: int, correlation_id: int, topics: list[tuple[str, list[PartitionData]]]
) -> list[bytes]:
    """The response, without its length, as pieces to be written one after the other."""
    out = [_I32.pack(correlation_id), _I32.pack(0)]
    if version >= 7:
        out.append(struct.pack(">hi", 0, 0))
    out.append(_I32.pack(len(topics)))
    for topic, parts in topics:
        name = topic.encode()
        out += (_I16.pack(len(name)), name, _I32.pack(len(parts)))
        for part in parts:
            out.append(_PARTITION.pack(part.partition, part.code, part.end_offset, part.end_offset))
            if version >= 5:
                out.append(_START.pack(part.start_offset))
            # No aborted transactions; from version 11 on, no preferred replica either.
            if version >= 11:
                out.append(_NONE_REPLICA_AND_SIZE.pack(-1, -1, len(part.records)))
            else:
                out.append(_NONE_AND_SIZE.pack(-1, len(part.records)))
            if part.records:
                out.append(part.records)
    return out
