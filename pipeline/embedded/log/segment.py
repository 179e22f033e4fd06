"""One file of a partition: batches one after the other, named by the first offset it may hold."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_header
from pipeline.embedded.log.faults import POINT, die
from pipeline.embedded.log.index import SparseIndex
from pipeline.embedded.log.sidecar import Sidecar

SCAN_BYTES = 32 * 1024

INDEXES_MAX = 128
"""Of closed segments, in the whole process. Others are read again when they are needed."""

NO_TIMESTAMP = -1


def segment_path(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.log"


class Segment:
    """A growing or a closed segment. All calls are made by the event loop's thread.

    `size` is what was written whole: readers never look past it.
    """

    def __init__(self, path: Path, base_offset: int, created_ms: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.size = 0
        self.next_offset = base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self._index: SparseIndex | None = SparseIndex()
        self.cleaned = False
        self.horizons_ms: dict[int, int] = {}
        self._fd = -1

    @property
    def index(self) -> SparseIndex:
        """A growing segment has its own; that of a shelved one may have to be read for."""
        index = self._index  # Once: the thread that syncs may shelve it meanwhile.
        return shelved_index(self) if index is None else index

    def shelve(self) -> None:
        """Leave the index to the sidecar, which is in its place: nothing is appended any more."""
        self._index = None

    @property
    def fd(self) -> int:
        """The file, opened when it is first needed, and again after it was closed."""
        if self._fd < 0:
            # Only an empty segment may be made: a missing file must not pass for one.
            make = 0 if self.size else os.O_CREAT
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | make, 0o644)
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Delete the file and what belongs to it. May raise OSError."""
        self.close()
        self.sidecar_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    @property
    def sidecar_path(self) -> Path:
        return self.path.with_suffix(".meta")

    def adopt(self, known: Sidecar) -> None:
        """Take over what an earlier process knew of this closed segment."""
        self.size = known.size
        self.next_offset = known.next_offset
        self.max_timestamp_ms = known.max_timestamp_ms
        self._index = SparseIndex.from_columns(known.index)
        self.cleaned = known.cleaned
        self.horizons_ms = known.horizons_ms

    def append(self, batch: memoryview, header: BatchHeader) -> None:
        """Write a stamped batch through to the operating system, so that it survives our death.

        Raises OSError when the disk refuses; the file is then as it was.
        """
        POINT.pass_by("before-write")
        fd = self.fd
        try:
            if POINT.due("mid-batch"):
                os.pwrite(fd, batch[: len(batch) // 2], self.size)
                die()
            written = os.pwrite(fd, batch, self.size)
            while written < len(batch):
                written += os.pwrite(fd, batch[written:], self.size + written)
        except OSError:
            os.ftruncate(fd, self.size)
            raise
        self.note(header)
        POINT.pass_by("after-write")

    def append_copy(self, batch: memoryview) -> None:
        """Write a batch that keeps its offsets to a segment nobody reads yet. May raise OSError."""
        written = 0
        while written < len(batch):
            written += os.pwrite(self.fd, batch[written:], self.size + written)
        self.note(read_header(batch))

    def note(self, header: BatchHeader) -> None:
        """Account for a batch that lies at the end of the file."""
        self.index.note(header.base_offset, self.size, self.max_timestamp_ms)
        self.size += header.size
        self.next_offset = header.next_offset
        self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp_ms)

    def scan(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of all batches from the batch start `position` on."""
        chunk, chunk_at = b"", position
        while position < self.size:
            at = position - chunk_at
            if at + HEADER_SIZE > len(chunk):
                chunk, chunk_at, at = os.pread(self.fd, SCAN_BYTES, position), position, 0
            header = read_header(chunk, at)
            yield position, header
            position += header.size

    def position_of(self, offset: int) -> int | None:
        """Where the first batch starts that reaches `offset`, or None when there is none."""
        if offset >= self.next_offset:
            return None
        for position, header in self.scan(self.index.position_of_offset(offset)):
            if header.next_offset > offset:
                return position
        return None

    def read(self, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from a batch start on, about `max_bytes` of them, but at least one.

        With the offset that comes after them.
        """
        end, next_offset = position + max_bytes, self.next_offset
        if end >= self.size:
            end = self.size
        else:
            end, next_offset = self.index.last_start_until(end)
            if end <= position:
                end, next_offset = self._walk_to(position, position + max_bytes)
        return os.pread(self.fd, end - position, position), next_offset

    def _walk_to(self, position: int, limit: int) -> tuple[int, int]:
        end, next_offset = position, self.base_offset
        for start, header in self.scan(position):
            if end > position and start + header.size > limit:
                break
            end, next_offset = start + header.size, header.next_offset
        return end, next_offset

    def batch_at(self, position: int, header: BatchHeader) -> memoryview:
        return memoryview(os.pread(self.fd, header.length + LENGTH_OVERHEAD, position))


@lru_cache(maxsize=INDEXES_MAX)
def shelved_index(segment: Segment) -> SparseIndex:
    """The index of a closed segment, from its sidecar; without one the segment is read for it.

    Blocks on the disk. May raise OSError.
    """
    columns = sidecar.load_index(segment.sidecar_path, segment.size)
    if columns is not None:
        return SparseIndex.from_columns(columns)
    index, newest_ms = SparseIndex(), NO_TIMESTAMP
    for position, header in segment.scan(0):
        index.note(header.base_offset, position, newest_ms)
        newest_ms = max(newest_ms, header.max_timestamp_ms)
    return index
