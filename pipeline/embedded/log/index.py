"""The sparse index of a segment: which batch starts where, about every 32 KiB."""

from array import array
from bisect import bisect_left, bisect_right

INTERVAL_BYTES = 32 * 1024


class SparseIndex:
    """Three columns: a batch's base offset, its position, and the newest timestamp before it."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.max_timestamps_ms = array("q")

    def note(self, offset: int, position: int, max_timestamp_before_ms: int) -> None:
        """Tell of a batch, in the order of the file; most are not kept."""
        if self.positions and position - self.positions[-1] < INTERVAL_BYTES:
            return
        self.offsets.append(offset)
        self.positions.append(position)
        self.max_timestamps_ms.append(max_timestamp_before_ms)

    def position_of_offset(self, offset: int) -> int:
        """A batch start at or before the batch that holds `offset`."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def position_of_timestamp(self, timestamp_ms: int) -> int:
        """A batch start before which every record is older than `timestamp_ms`."""
        at = bisect_left(self.max_timestamps_ms, timestamp_ms) - 1
        return self.positions[at] if at >= 0 else 0

    def last_start_until(self, position: int) -> tuple[int, int]:
        """The last indexed batch start at or before `position`, and its base offset."""
        at = bisect_right(self.positions, position) - 1
        return (self.positions[at], self.offsets[at]) if at >= 0 else (0, 0)

    def columns(self) -> tuple[bytes, bytes, bytes]:
        return self.offsets.tobytes(), self.positions.tobytes(), self.max_timestamps_ms.tobytes()

    @classmethod
    def from_columns(cls, columns: tuple[bytes, bytes, bytes]) -> "SparseIndex":
        index = cls()
        index.offsets.frombytes(columns[0])
        index.positions.frombytes(columns[1])
        index.max_timestamps_ms.frombytes(columns[2])
        return index
