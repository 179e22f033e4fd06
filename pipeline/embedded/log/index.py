"""The sparse index of a segment: which batch starts where, about every 32 KiB at first."""

from array import array
from bisect import bisect_left, bisect_right

INTERVAL_BYTES = 32 * 1024

ENTRIES_MAX = 8_192
"""Of 24 bytes each: a segment of the default size has them all, a larger one every second, ..."""


class SparseIndex:
    """Three columns: a batch's base offset, its position, and the newest timestamp before it.

    One that is full forgets every second entry and notes half as many from there on: what is found
    is a start at or before the one that is looked for, only farther before it.
    """

    def __init__(self) -> None:
        self._interval_bytes = INTERVAL_BYTES
        self.offsets = array("q")
        self.positions = array("q")
        self.max_timestamps_ms = array("q")

    def note(self, offset: int, position: int, max_timestamp_before_ms: int) -> None:
        """Tell of a batch, in the order of the file; most are not kept."""
        if self.positions and position - self.positions[-1] < self._interval_bytes:
            return
        if len(self.positions) >= ENTRIES_MAX:
            self._halve()
        self.offsets.append(offset)
        self.positions.append(position)
        self.max_timestamps_ms.append(max_timestamp_before_ms)

    def _halve(self) -> None:
        self.offsets = self.offsets[::2]
        self.positions = self.positions[::2]
        self.max_timestamps_ms = self.max_timestamps_ms[::2]
        self._interval_bytes *= 2

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
        while len(index.positions) > ENTRIES_MAX:
            index._halve()
        if len(index.positions) > ENTRIES_MAX // 2:
            # How often it was halved is not stored, but can be seen.
            mean_bytes = (index.positions[-1] - index.positions[0]) // (len(index.positions) - 1)
            index._interval_bytes = max(INTERVAL_BYTES, mean_bytes)
        return index
