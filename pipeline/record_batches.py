"""Record batches that aiokafka cannot read: with header names that are no text, or damaged.

Kafka's header names are UTF-8, but no broker looks. One record of a foreign producer would
otherwise end every worker that reads it, for as long as the log holds it. Such a name is none of
Tally's, so it is kept in a readable form and otherwise means nothing.

A batch whose checksum holds came as its producer sent it: to fetch it again helps nobody. If its
records cannot be read, or are not in their place, it stands for one record with all of its bytes
and the header UNREADABLE_HEADER, which the decoder refuses: a dead letter, and the stream goes on.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy

from pipeline.bounded_codecs import bound_decompression
from pipeline.errors import BadInputError
from pipeline.fetch_bounds import FetchSize
from pipeline.found_records import (
    BATCH_START,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    RECORDS_MAX,
    after_batch,
    claimed_records,
)
from pipeline.lanes import UNREADABLE_HEADER
from pipeline.old_batches import OLD_BYTES_MIN, OldBatch, old_batch
from schemas.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.cells import Int64Column

_OFFSET = attrgetter("offset")
_VARINT_BITS_MAX = 70
_INT64 = range(-(2**63), 2**63)


class PlainRecord(NamedTuple):
    """One record, with the names that aiokafka gives its fields."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class MadeRecords:
    """Takes the batches of one fetch, and makes an object of each record, as aiokafka does."""

    def __init__(self, fetched: KeptRecords) -> None:
        self._fetched = fetched
        self._records: list[Any] = []
        self._offsets: list[Int64Column] = [np.zeros(0, np.int64)]
        self._batch_offsets: list[int] = []
        self.size = FetchSize()

    def is_whole(self, batch: Any) -> bool:
        """Whether a batch has the checksum that it says it has."""
        return bool(batch.validate_crc())

    def skip(self, batch: Any) -> None:
        """Pass a batch over."""

    def take(self, batch: Any) -> None:
        """Take the records of a batch whose checksum holds. Never raises."""
        records, offsets = placed_records(batch, self._fetched)
        self._records.extend(records)
        self._offsets.append(offsets)
        self._batch_offsets.append(batch.base_offset)
        blobs = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self.size.add(len(records), blobs)

    def records(self, partition: int) -> Records:
        """All that were taken, as columns."""
        return Records(
            partition,
            np.concatenate(self._offsets),
            np.array([record.timestamp for record in self._records], np.int64),
            [record.key for record in self._records],
            [record.value for record in self._records],
            [tuple(record.headers) for record in self._records],
            batch_offsets=np.array(self._batch_offsets, np.int64),
        )


class KeptRecords:
    """The batches of one fetch, as aiokafka reads each of them, and the bytes they are in.

    It stands in for aiokafka's own, whose compiled one takes all batches of a fetch to be of the
    first one's format. `end` is where the last batch ends that was asked for.
    """

    __slots__ = ("_starts", "end", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.end = 0
        self._starts: dict[int, int] = {}

    def size_in_bytes(self) -> int:
        """Of all of it, with what a broker cut off."""
        return len(self.raw)

    def has_next(self) -> bool:
        """Whether there is another batch: one that the broker cut off is none."""
        rest = len(self.raw) - self.end
        return rest >= BATCH_START.size and after_batch(self.raw, self.end) <= len(self.raw)

    def next_batch(self) -> Any:
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
        self._starts.setdefault(batch.base_offset, start)
        return batch

    def start_of(self, batch: Any) -> int:
        """Where a batch that was asked for starts in the bytes."""
        return self._starts[batch.base_offset]

    def bytes_of(self, batch: Any) -> bytes:
        """All bytes of a batch that was asked for."""
        start = self.start_of(batch)
        return self.raw[start : after_batch(self.raw, start)]


def made_of(batches: Iterable[Any], fetched: KeptRecords) -> MadeRecords:
    """The records of batches of `fetched` whose checksums hold."""
    made = MadeRecords(fetched)
    for batch in batches:
        made.take(batch)
    return made


def keep_bytes_of_fetches() -> None:
    """From now on fetches of aiokafka's consumers in this process hold KeptRecords."""
    fetcher.MemoryRecords = KeptRecords


def records_of(batch: Any, fetched: KeptRecords) -> list[Any]:
    """The records of a batch of `fetched` whose checksum holds. Never raises."""
    if isinstance(batch, OldBatch) or _has_too_many(batch, fetched):
        return [unreadable(batch, fetched)]
    try:
        return list(batch)
    except UnicodeDecodeError:
        return _with_odd_names(batch, fetched)
    except CorruptRecordException as error:
        # aiokafka without its compiled parts wraps the other one.
        if isinstance(error.__cause__, UnicodeDecodeError):
            return _with_odd_names(batch, fetched)
    except Exception:  # noqa: S110 - codecs raise errors of many kinds, which all mean the same
        pass
    return [unreadable(batch, fetched)]


def _has_too_many(batch: Any, fetched: KeptRecords) -> bool:
    return claimed_records(fetched.raw, fetched.start_of(batch)) > RECORDS_MAX


def placed_records(batch: Any, fetched: KeptRecords) -> tuple[list[Any], Int64Column]:
    """The records of a batch and their offsets, which ascend within the batch's own: the transport
    relies on that. Where they do not, the batch counts as one that cannot be read. Never raises.
    """
    records = records_of(batch, fetched)
    offsets = np.fromiter(map(_OFFSET, records), np.int64, len(records))
    if len(offsets) and not (
        batch.base_offset <= offsets[0]
        and offsets[-1] < batch.next_offset
        and bool((offsets[1:] > offsets[:-1]).all())
    ):
        records = [unreadable(batch, fetched)]
        offsets = np.array([batch.base_offset], np.int64)
    return records, offsets


def unreadable(batch: Any, fetched: KeptRecords) -> PlainRecord:
    """What stands for a batch that cannot be read: a record in its first place."""
    raw = fetched.bytes_of(batch)
    headers: list[tuple[str, bytes | None]] = [(UNREADABLE_HEADER, b"")]
    return PlainRecord(batch.base_offset, batch.max_timestamp, None, raw, headers)


def _with_odd_names(batch: Any, fetched: KeptRecords) -> list[PlainRecord]:
    try:
        return _read(fetched.bytes_of(batch))
    except Exception:  # as in `records_of`
        return [unreadable(batch, fetched)]


def _read(raw: bytes) -> list[PlainRecord]:
    """Raises BadInputError, and whatever codecs raise."""
    batch: Any = _DefaultRecordBatchPy(raw)
    iter(batch)  # decompresses it
    is_log_time = batch.timestamp_type == batch.LOG_APPEND_TIME
    records = []
    cursor = _Cursor(bytes(batch._buffer), batch._pos)
    for _ in range(batch._num_records):
        end = cursor.number() + cursor.at
        cursor.skip(1)  # attributes, of which there are none yet
        passed_ms = cursor.number()
        record = PlainRecord(
            offset=batch.base_offset + cursor.number(),
            timestamp=batch.max_timestamp if is_log_time else batch.first_timestamp + passed_ms,
            key=cursor.blob(),
            value=cursor.blob(),
            headers=[cursor.header() for _ in range(cursor.number())],
        )
        if cursor.at != end or not (record.offset in _INT64 and record.timestamp in _INT64):
            raise BadInputError("a record that is not as long as it says, or out of bounds")
        records.append(record)
    if not cursor.is_at_end:
        raise BadInputError("more bytes in a batch than its records have")
    return records


class _Cursor:
    """Reads the parts of records one after the other. Methods raise BadInputError at the end.

    aiokafka's own reader of numbers is compiled, and goes on past the end into other memory.
    """

    def __init__(self, buffer: bytes, at: int) -> None:
        self._buffer = buffer
        self.at = at

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self._buffer)

    def number(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self._buffer) or shift >= _VARINT_BITS_MAX:
                raise BadInputError("a number that does not end")
            byte = self._buffer[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def skip(self, count: int) -> bytes:
        start = self.at
        if count > len(self._buffer) - start:
            raise BadInputError("a record that ends too early")
        self.at += count
        return self._buffer[start : self.at]

    def blob(self) -> bytes | None:
        size = self.number()
        return None if size < 0 else self.skip(size)

    def header(self) -> tuple[str, bytes | None]:
        name = self.blob() or b""
        return name.decode(errors="backslashreplace"), self.blob()


bound_decompression()
