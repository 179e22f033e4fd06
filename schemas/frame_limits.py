"""Bounds on a frame, read from its messages' headers before Arrow allocates anything for them.

Arrow believes the lengths a stream announces. A compressed body of some kilobytes can announce
gigabytes, so compressed bodies are not taken: Kafka compresses the batch anyway.
"""

import struct

import pyarrow as pa
from pyarrow import ipc

from pipeline.errors import BadInputError

MAX_FRAME_BYTES = 64 * 2**20
MAX_FRAME_ROWS = 2**18
MAX_FRAME_MESSAGES = 1024
MAX_TEXT_BYTES = 32 * 2**20
"""Of one column of one frame, after dictionaries are expanded."""

_END_MARK = b"\xff\xff\xff\xff\0\0\0\0"

# Places of fields in the flatbuffers tables of Arrow's format, Message.fbs.
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
_BATCH_LENGTH, _BATCH_COMPRESSION = 0, 3
_DICTIONARY_DATA = 1
_TYPE_DICTIONARY, _TYPE_BATCH = 2, 3


def check_limits(data: bytes) -> None:
    """Raises BadInputError when the frame is too large, compressed or not whole, and pyarrow's
    errors when it is malformed.

    Arrow takes the end of the bytes for the end of the stream, so a frame cut between two batches
    would lose rows in silence: the mark at the end is asked for, and nothing may follow it.
    """
    if len(data) > MAX_FRAME_BYTES:
        raise BadInputError(f"frame: more than {MAX_FRAME_BYTES} bytes")
    rows = 0
    source = pa.BufferReader(data)
    for number, message in enumerate(ipc.MessageReader.open_stream(source)):
        if number >= MAX_FRAME_MESSAGES:
            raise BadInputError(f"frame: more than {MAX_FRAME_MESSAGES} batches")
        try:
            rows += _announced_rows(message.metadata.to_pybytes())
        except struct.error:
            raise BadInputError("frame: not an Arrow IPC stream") from None
        if rows > MAX_FRAME_ROWS:
            raise BadInputError(f"frame: more than {MAX_FRAME_ROWS} rows")
    if source.tell() != len(data) or not data.endswith(_END_MARK):
        raise BadInputError("frame: not whole; close the Arrow stream and send nothing after it")


def _announced_rows(metadata: bytes) -> int:
    message: int = struct.unpack_from("<I", metadata, 0)[0]
    kind_at = _field(metadata, message, _MESSAGE_HEADER_TYPE)
    kind = metadata[kind_at] if kind_at is not None and kind_at < len(metadata) else 0
    if kind not in {_TYPE_DICTIONARY, _TYPE_BATCH}:
        return 0
    batch = _table(metadata, message, _MESSAGE_HEADER)
    if kind == _TYPE_DICTIONARY:
        batch = _table(metadata, batch, _DICTIONARY_DATA)
    if _field(metadata, batch, _BATCH_COMPRESSION) is not None:
        raise BadInputError("frame: its body is compressed; let Kafka compress instead")
    length_at = _field(metadata, batch, _BATCH_LENGTH)
    length: int = 0 if length_at is None else struct.unpack_from("<q", metadata, length_at)[0]
    if length < 0:
        raise BadInputError("frame: not an Arrow IPC stream")
    return length


def _field(data: bytes, table: int, index: int) -> int | None:
    """Where field `index` of the flatbuffers table at `table` lies; None when it is left out."""
    vtable: int = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise struct.error("vtable before the buffer")
    size: int = struct.unpack_from("<H", data, vtable)[0]
    slot = 4 + 2 * index
    if slot >= size:
        return None
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else None


def _table(data: bytes, table: int, index: int) -> int:
    at = _field(data, table, index)
    if at is None:
        raise struct.error("a table is left out")
    target: int = at + struct.unpack_from("<I", data, at)[0]
    return target
