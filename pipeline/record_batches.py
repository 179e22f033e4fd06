"""The batches of a fetch, with the bytes they came in, and their records as objects.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from pipeline.fetch_bounds import FetchSize
from pipeline.found_records import BATCH_START, HEADER_BYTES, MAGIC, MAGIC_AT, after_batch
from pipeline.kept_batches import KeptBatch, own_headers
from pipeline.old_batches import OLD_BYTES_MIN, old_batch
from schemas.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.cells import Int64Column
    from schemas.records import Headers


class MadeRecords:
    """Takes the batches of one fetch, and makes an object of each record, as aiokafka does."""

    def __init__(self) -> None:
        self._offsets: list[Int64Column] = [np.zeros(0, np.int64)]
        self._timestamps_ms: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []
        self._batch_offsets: list[int] = []
        self.size = FetchSize()

    def is_whole(self, batch: KeptBatch) -> bool:
        """Whether a batch has the checksum that it says it has."""
        return bool(batch.validate_crc())

    def skip(self, batch: KeptBatch) -> None:
        """Pass a batch over."""

    def take(self, batch: KeptBatch) -> None:
        """Take the records of a batch whose checksum holds. Never raises.

        Of their headers none is kept but Tally's own: those of one batch are enough to hold.
        """
        records, offsets = batch.placed()
        self._offsets.append(offsets)
        self._timestamps_ms += [record.timestamp for record in records]
        self._keys += [record.key for record in records]
        self._values += [record.value for record in records]
        self._headers += [own_headers(record.headers) for record in records]
        self._batch_offsets.append(batch.base_offset)
        self.size.add(object_count(records), blob_bytes(records))

    def records(self, partition: int) -> Records:
        """All that were taken, as columns."""
        return Records(
            partition,
            np.concatenate(self._offsets),
            np.array(self._timestamps_ms, np.int64),
            self._keys,
            self._values,
            self._headers,
            batch_offsets=np.array(self._batch_offsets, np.int64),
        )


def blob_bytes(records: Iterable[Any]) -> int:
    """Of all keys and values."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


def object_count(records: Sequence[Any]) -> int:
    """Of the records and their headers: one is an object as much as the other."""
    return len(records) + sum(len(record.headers) for record in records)


HANDED_BYTES_MAX = 8 << 20
"""Of keys and values that one fetch of a partition gives to a consumer of aiokafka's, and the batch
that fills it. These unpack on the event loop, which has heartbeats to send."""

HANDED_OBJECTS_MAX = 2**17
"""The same of records and their headers."""


class KeptRecords:
    """The batches of one fetch, as aiokafka reads each of them, and the bytes they are in.

    It stands in for aiokafka's own, whose compiled one takes all batches of a fetch to be of the
    first one's format. `end` is where the last batch ends that was asked for. When the records that
    were gone through are HANDED_BYTES_MAX or HANDED_OBJECTS_MAX, there are no more: the rest is
    fetched again.
    """

    __slots__ = ("_handed_bytes", "_handed_objects", "end", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.end = 0
        self._handed_bytes = 0
        self._handed_objects = 0

    def size_in_bytes(self) -> int:
        """Of all of it, with what a broker cut off."""
        return len(self.raw)

    def has_next(self) -> bool:
        """Whether there is another batch: one that the broker cut off is none."""
        rest = len(self.raw) - self.end
        has_more = rest >= BATCH_START.size and after_batch(self.raw, self.end) <= len(self.raw)
        is_enough = (
            self._handed_bytes >= HANDED_BYTES_MAX or self._handed_objects >= HANDED_OBJECTS_MAX
        )
        return has_more and not is_enough

    def next_batch(self) -> KeptBatch:
        """The next batch. Raises CorruptRecordException when there is none in these bytes.

        No checksum covers the length, so it may be anything.
        """
        start = self.end
        end = after_batch(self.raw, start)
        is_old = end >= start + OLD_BYTES_MIN and self.raw[start + MAGIC_AT] < MAGIC
        if is_old:
            batch: Any = old_batch(self.raw[start:end])
        elif end < start + HEADER_BYTES:
            raise CorruptRecordException(f"a batch of {end - start} bytes has no header")
        else:
            batch = DefaultRecordBatch(memoryview(self.raw)[start:end])
        self.end = end
        return KeptBatch(batch, self.raw, start, end, self._hand)

    def _hand(self, records: Sequence[Any]) -> None:
        """Somebody goes through these."""
        self._handed_bytes += blob_bytes(records)
        self._handed_objects += object_count(records)


def made_of(batches: Iterable[KeptBatch]) -> MadeRecords:
    """The records of batches whose checksums hold."""
    made = MadeRecords()
    for batch in batches:
        made.take(batch)
    return made


def keep_bytes_of_fetches() -> None:
    """From now on fetches of aiokafka's consumers in this process hold KeptRecords.

    So none of them is stopped by what somebody sent. May be called again.
    """
    fetcher.MemoryRecords = KeptRecords
