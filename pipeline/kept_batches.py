"""A batch of records that every reader can go through, whatever its producer sent.

One record of a foreign producer would otherwise end every worker that reads it, for as long as the
log holds it. A header's name that is no text is none of Tally's, so it is kept in a readable form
and otherwise means nothing.

A batch whose checksum holds came as its producer sent it: to fetch it again helps nobody. If its
records cannot be read, are not in their place, or are more than anybody means to send, it stands
for one record with all of its bytes and the header UNREADABLE_HEADER, which the decoder refuses: a
dead letter, and the stream goes on.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.errors import CorruptRecordException

from pipeline.bounded_codecs import bound_decompression
from pipeline.bounded_headers import has_too_many_headers
from pipeline.found_records import MAGIC, MAGIC_AT, RECORDS_MAX, claimed_records
from pipeline.lanes import OWN_HEADERS, UNREADABLE_HEADER
from pipeline.old_batches import OldBatch
from pipeline.plain_records import PlainRecord, plain_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pipeline.cells import Int64Column
    from schemas.records import Headers

HEADERS_GIVEN_MAX = 2**16
"""Of a batch: more are not given to who goes through its records."""

NO_EPOCH = -1
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12

_OFFSET = attrgetter("offset")


class KeptBatch:
    """A batch whose checksum holds, or whose reader looks at it: what aiokafka asks one for.

    To go through its records never raises. If they have more than HEADERS_GIVEN_MAX headers, those
    are Tally's own alone: who goes through them keeps them all.
    """

    __slots__ = ("_batch", "_end", "_fetched", "_on_records", "_start")

    def __init__(
        self,
        batch: Any,
        fetched: bytes,
        start: int,
        end: int,
        on_records: Callable[[list[Any]], None],
    ) -> None:
        """`on_records` is told what is gone through."""
        self._on_records = on_records
        self._batch = batch
        self._fetched = fetched
        self._start = start
        self._end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        records, _ = self.placed()
        self._on_records(records)
        if sum(len(record.headers) for record in records) > HEADERS_GIVEN_MAX:
            return map(_with_own_headers, records)
        return iter(records)

    def __next__(self) -> Any:
        """What a broker wrote into a control batch, whose records nobody goes through."""
        return next(self._batch)

    @property
    def raw(self) -> bytes:
        """All of its bytes."""
        return self._fetched[self._start : self._end]

    @property
    def leader_epoch(self) -> int:
        """Of the leader that took it: greater after every change of leaders, and every start of
        one. NO_EPOCH in old formats."""
        if self._fetched[self._start + MAGIC_AT] < MAGIC:
            return NO_EPOCH
        return int(_EPOCH.unpack_from(self._fetched, self._start + _EPOCH_AT)[0])

    def placed(self) -> tuple[list[Any], Int64Column]:
        """Its records and their offsets, which ascend within its own: the transport relies on that.

        Where they do not, it counts as a batch that cannot be read. Never raises.
        """
        records = self._records()
        offsets = np.fromiter(map(_OFFSET, records), np.int64, len(records))
        base_offset = self._batch.base_offset
        if len(offsets) and not (
            base_offset <= offsets[0]
            and offsets[-1] < self._batch.next_offset
            and bool((offsets[1:] > offsets[:-1]).all())
        ):
            return [self._unreadable()], np.array([base_offset], np.int64)
        return records, offsets

    def _records(self) -> list[Any]:
        if isinstance(self._batch, OldBatch) or self._has_too_many():
            return [self._unreadable()]
        try:
            return list(self._batch)
        except UnicodeDecodeError:
            return self._with_odd_names()
        except CorruptRecordException as error:
            # aiokafka without its compiled parts wraps the other one.
            if isinstance(error.__cause__, UnicodeDecodeError):
                return self._with_odd_names()
        except Exception:  # noqa: S110 - codecs raise errors of many kinds, which all mean the same
            pass
        return [self._unreadable()]

    def _has_too_many(self) -> bool:
        is_too_long = claimed_records(self._fetched, self._start) > RECORDS_MAX
        return is_too_long or has_too_many_headers(
            memoryview(self._fetched)[self._start : self._end]
        )

    def _with_odd_names(self) -> list[PlainRecord]:
        try:
            return plain_records(self.raw)
        except Exception:  # as in `_records`
            return [self._unreadable()]

    def _unreadable(self) -> PlainRecord:
        """What stands for a batch that cannot be read: a record in its first place."""
        headers: list[tuple[str, bytes | None]] = [(UNREADABLE_HEADER, b"")]
        return PlainRecord(
            self._batch.base_offset, self._batch.max_timestamp, None, self.raw, headers
        )


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Those that Tally goes by: others are not kept."""
    return tuple(header for header in headers if header[0] in OWN_HEADERS)  # type: ignore[misc]  # a header without a value has None


def _with_own_headers(record: Any) -> PlainRecord:
    return PlainRecord(
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        list(own_headers(record.headers)),
        record.timestamp_type,
        record.checksum,
    )


bound_decompression()
