"""One partition: its segments, its producers, and those who wait for its next record."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.embedded.log import recovery
from pipeline.embedded.log.batch import BatchHeader, RejectedBatchError, admit, stamp
from pipeline.embedded.log.faults import POINT
from pipeline.embedded.log.producers import ProducerTable, Snapshot
from pipeline.embedded.log.records import first_record_since, has_null_key, newest_time_since
from pipeline.embedded.log.segment import Segment, segment_path
from pipeline.embedded.log.topic_config import TopicConfig

NO_TIME = -1


class Appended(NamedTuple):
    """Where a batch is; `append_time_ms` is -1 when records carry their creators' times."""

    base_offset: int
    append_time_ms: int


class Found(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp_ms: int


class Partition:
    """All calls are made by the event loop's thread. Reads and writes go to the page cache."""

    def __init__(
        self,
        folder: Path,
        config: TopicConfig,
        start_offset: int,
        now_ms: int,
        on_closed: Callable[["Partition", Segment, Snapshot], None],
    ) -> None:
        """Recovers the folder, or makes it, and blocks meanwhile; to sync those on the way to it is
        left to the caller, and so is what is `unsynced` or `unvouched`. `on_closed` is told of each
        closed segment. May raise OSError.
        """
        self.folder = folder
        self.config = config
        self.producers = ProducerTable()
        opened = recovery.open_segments(folder, self.producers, now_ms)
        self.segments = opened.segments
        self.unsynced = opened.unsynced
        self.unvouched = opened.unvouched
        self.start_offset = max(start_offset, self.segments[0].base_offset)
        self.appended_bytes = 0
        self.dropped = False
        self._on_closed = on_closed
        self._waiters: set[asyncio.Event] = set()
        # A log that lost its tail ends no earlier than the records that were deleted on purpose.
        if self.end_offset < self.start_offset:
            self.segments.append(
                Segment(segment_path(folder, self.start_offset), self.start_offset, now_ms)
            )

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self.segments[-1].next_offset

    def append(self, batch: memoryview, now_ms: int) -> Appended:
        """Store one batch, stamped in place; a repeated one is answered with its first place.

        Raises RejectedBatchError, or OSError when the disk refuses.
        """
        header = admit(batch, self.config.max_message_bytes)
        if self.config.is_compacted and has_null_key(batch):
            raise RejectedBatchError(ErrorCode.invalid_record, "a compacted topic needs keys")
        repeated = self.producers.check(header)
        append_time_ms = now_ms if self.config.is_log_append_time else NO_TIME
        if repeated is not None:
            first_time_ms = repeated.timestamp_ms if self.config.is_log_append_time else NO_TIME
            return Appended(repeated.base_offset, first_time_ms)
        self._roll_if_due(len(batch), now_ms)
        offset = self.end_offset
        stamp(batch, header, offset, now_ms if self.config.is_log_append_time else None)
        max_timestamp_ms = now_ms if self.config.is_log_append_time else header.max_timestamp_ms
        self._write(batch, header._replace(base_offset=offset, max_timestamp_ms=max_timestamp_ms))
        self.producers.store(header, offset, max_timestamp_ms, now_ms)
        return Appended(offset, append_time_ms)

    def _write(self, batch: memoryview, header: BatchHeader) -> None:
        self.active.append(batch, header)
        self.appended_bytes += len(batch)
        for waiter in self._waiters:
            waiter.set()

    def _roll_if_due(self, incoming_bytes: int, now_ms: int) -> None:
        active = self.active
        if active.size and (
            active.size + incoming_bytes > self.config.segment_bytes
            or now_ms - active.created_ms >= self.config.segment_ms
        ):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Close the active segment, if it holds anything, and start the next."""
        closed = self.active
        if not closed.size:
            return
        fresh = Segment(segment_path(self.folder, closed.next_offset), closed.next_offset, now_ms)
        _ = fresh.fd
        POINT.pass_by("segment-roll")
        self.segments.append(fresh)
        self._on_closed(self, closed, self.producers.snapshot())

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from the one that holds `offset` on; empty at the end.

        With the offset that comes after them. At least one batch when there is one. The caller has
        checked that the offset is in range.
        """
        for segment in self._segments_from(offset):
            position = segment.position_of(offset)
            if position is not None:
                return segment.read(position, max_bytes)
        return b"", offset

    def _segments_from(self, offset: int) -> list[Segment]:
        segments = self.segments
        low = len(segments) - 1
        while low > 0 and segments[low].base_offset > offset:
            low -= 1
        return segments[low:]

    def find_timestamp(self, timestamp_ms: int) -> Found | None:
        """The first record at or after a time, exactly: batches are opened to look for it."""
        for segment in self._live_segments():
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            start = max(
                segment.index.position_of_timestamp(timestamp_ms),
                segment.index.position_of_offset(self.start_offset),
            )
            for position, header in segment.scan(start):
                is_deleted = header.next_offset <= self.start_offset
                if is_deleted or header.max_timestamp_ms < timestamp_ms:
                    continue
                batch = segment.batch_at(position, header)
                found = first_record_since(batch, header, timestamp_ms, self.start_offset)
                if found is not None:
                    return Found(*found)
        return None

    def newest(self) -> Found | None:
        """The record with the greatest timestamp, the earliest of equals."""
        segments = self._live_segments()
        times_ms = [segment.max_timestamp_ms for segment in segments]
        if not times_ms or max(times_ms) < 0:
            return None
        found = self.find_timestamp(max(times_ms))
        if found is None and segments[0].base_offset < self.start_offset:
            # The first segment's newest record may be among those that were deleted.
            times_ms[0] = self._newest_live_ms(segments[0])
            found = self.find_timestamp(max(times_ms)) if max(times_ms) >= 0 else None
        return found

    def _live_segments(self) -> list[Segment]:
        """Those in which something is not deleted."""
        return [s for s in self.segments if s.next_offset > self.start_offset]

    def _newest_live_ms(self, segment: Segment) -> int:
        """The greatest timestamp from `start_offset` on; walks the headers that come after it."""
        newest_ms = NO_TIME
        start = segment.position_of(self.start_offset)
        for position, header in segment.scan(segment.size if start is None else start):
            time_ms = header.max_timestamp_ms
            if header.base_offset < self.start_offset:
                batch = segment.batch_at(position, header)
                time_ms = newest_time_since(batch, header, self.start_offset)
            newest_ms = max(newest_ms, time_ms)
        return newest_ms

    def delete_before(self, offset: int) -> None:
        """Let records below `offset` go; whole segments leave the disk. May raise OSError."""
        self.start_offset = max(self.start_offset, offset)
        while len(self.segments) > 1 and self.segments[0].next_offset <= self.start_offset:
            self.segments.pop(0).remove()

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put a compacted segment where old ones were; the files are the caller's affair."""
        assert self.holds(old)
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [new]

    def holds(self, segments: list[Segment]) -> bool:
        """True when these are still ours, one after the other."""
        if segments[0] not in self.segments:
            return False
        at = self.segments.index(segments[0])
        return self.segments[at : at + len(segments)] == segments

    def watch(self, waiter: asyncio.Event) -> None:
        """`waiter` is set at each append, until `unwatch`."""
        self._waiters.add(waiter)

    def unwatch(self, waiter: asyncio.Event) -> None:
        self._waiters.discard(waiter)

    def drop(self) -> None:
        """The topic is deleted: wake those who wait, close the files."""
        self.dropped = True
        for waiter in self._waiters:
            waiter.set()
        self.close()

    def close(self) -> None:
        """Give the files back; whoever reads or writes next opens them again."""
        for segment in self.segments:
            segment.close()
