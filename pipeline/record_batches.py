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
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from pipeline.bounded_codecs import bound_decompression
from pipeline.errors import BadInputError
from pipeline.found_records import BATCH_START
from pipeline.lanes import UNREADABLE_HEADER
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

    def records(self, partition: int) -> Records:
        """All that were taken, as columns."""
        return Records(
            partition,
            np.concatenate(self._offsets),
            np.array([record.timestamp for record in self._records], np.int64),
            [record.key for record in self._records],
            [record.value for record in self._records],
            [tuple(record.headers) for record in self._records],
        )


class KeptRecords:
    """aiokafka's records of one fetch, and the bytes they were made of."""

    __slots__ = ("_next", "has_next", "raw", "size_in_bytes")

    def __init__(self, raw: bytes) -> None:
        records = MemoryRecords(raw)
        self.raw = raw
        self.has_next = records.has_next
        self._next = records.next_batch
        self.size_in_bytes = records.size_in_bytes

    def next_batch(self) -> Any:
        """The next batch. Raises CorruptRecordException when there is none in these bytes.

        aiokafka looks into batches of old formats before their checksums are; what it stumbles
        over there is told as what it is, so that the consumer fetches again.
        """
        try:
            return self._next()
        except CorruptRecordException:
            raise
        except Exception as error:
            raise CorruptRecordException(f"a batch cannot be read: {error}") from error


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
    raw = _batch_at(fetched.raw, batch.base_offset)
    headers: list[tuple[str, bytes | None]] = [(UNREADABLE_HEADER, b"")]
    return PlainRecord(batch.base_offset, batch.max_timestamp, None, raw, headers)


def _with_odd_names(batch: Any, fetched: KeptRecords) -> list[PlainRecord]:
    try:
        return _read(_batch_at(fetched.raw, batch.base_offset))
    except Exception:  # as in `records_of`
        return [unreadable(batch, fetched)]


def _batch_at(raw: bytes, base_offset: int) -> bytes:
    at = 0
    while True:
        found, size = BATCH_START.unpack_from(raw, at)
        end = at + BATCH_START.size + size
        if found == base_offset:
            return raw[at:end]
        at = end


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
