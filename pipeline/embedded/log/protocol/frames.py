"""Cutting a stream of bytes into frames, with as little copying as may be.

A large frame is received straight into its own buffer; small ones share a buffer that is empty
again whenever another connection might use it.
"""

import struct

from pipeline.errors import BadInputError

FRAME_BYTES_MIN = 8
FRAME_BYTES_MAX = 100 * 1024 * 1024
SHARED_BYTES = 256 * 1024
# A frame's buffer grows with what has arrived, not with what its first bytes promise.
GROWTH_BYTES_MIN = 1024 * 1024

_SIZE = struct.Struct(">i")


class FrameReader:
    """One connection's frames. Readers of one thread may share the scratch buffer."""

    def __init__(self, scratch: memoryview) -> None:
        self._scratch = scratch
        self._head = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """How much of a frame that is not whole yet is kept."""
        return self._filled

    def buffer(self) -> memoryview:
        """Where the next bytes are to be put; asked for before each `received`."""
        if self._frame is None:
            return self._scratch
        if self._filled == len(self._frame):
            growth = min(max(self._filled, GROWTH_BYTES_MIN), self._frame_size - self._filled)
            self._frame += bytes(growth)
        return memoryview(self._frame)[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that `count` more bytes complete, each in a buffer of its own.

        Raises BadInputError for a size that no frame can have.
        """
        if self._frame is None:
            return self._cut(self._head + bytes(self._scratch[:count]))
        self._filled += count
        if self._filled < self._frame_size:
            return []
        frame, self._frame, self._filled = self._frame, None, 0
        return [memoryview(frame)]

    def _cut(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        at = 0
        self._head = b""
        while len(data) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(data, at)
            if not FRAME_BYTES_MIN <= size <= FRAME_BYTES_MAX:
                raise BadInputError(f"a frame of {size} bytes")
            at += _SIZE.size
            if len(data) - at < size:
                self._frame = bytearray(data[at:])
                self._frame_size, self._filled = size, len(self._frame)
                return frames
            frames.append(memoryview(bytearray(data[at : at + size])))
            at += size
        self._head = data[at:]
        return frames
