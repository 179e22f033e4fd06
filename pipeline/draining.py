"""What came in for a partition, as a fetch: read in any thread, then taken by the consumer.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException

from pipeline.decode import decode
from pipeline.fetches import Fetch
from pipeline.found_records import FoundRecords, has_places
from pipeline.record_batches import KeptRecords, MadeRecords, keep_bytes_of_fetches, made_of
from pipeline.shard import BatchMark

if TYPE_CHECKING:
    from faust.types import TP


class Pending(NamedTuple):
    """A copy of what a result still holds: to read it leaves no trace in the result."""

    tp: TP
    records: PartitionRecords


class Drained(NamedTuple):
    """A fetch that was read, but not taken: whether it is the newest is not known yet."""

    fetch: Fetch
    unpacked_bytes: int


def drain(result: FetchResult, tp: TP) -> Fetch | None:
    """What `result` still holds, or None if it is not to be used (paused, revoked, moved on).

    It ends where it is enough for one piece (pipeline/fetch_bounds.py), and so does the position:
    the rest is fetched again. What a transaction wrote that was aborted is left out, if the
    consumer reads what is committed. Raises CorruptRecordException when a batch is not what its CRC
    says; the consumer then fetches again. A batch whose CRC fits and that cannot be read is one
    record (pipeline/kept_batches.py).
    """
    return take(result, read(pending(result, tp)), tp) if is_usable(result, tp) else None


def is_usable(result: FetchResult, tp: TP) -> bool:
    """Whether its partition is still this consumer's, not paused, and where the result begins."""
    return bool(result.has_more() and result.check_assignment(tp))


def pending(result: FetchResult, tp: TP) -> Pending:
    """What a usable result still holds, for `read`."""
    held = result._partition_records
    copied = PartitionRecords(
        held._tp,
        KeptRecords(held._records.raw),
        held._aborted_transactions,
        held.next_fetch_offset,
        None,
        None,
        held._check_crcs,
        held._isolation_level,
    )
    return Pending(tp, copied)


def take(result: FetchResult, drained: Drained, tp: TP) -> Fetch:
    """The fetch, with the consumer's position moved past it. The result must be usable."""
    fetch = drained.fetch
    result._partition_records.next_fetch_offset = fetch.next_offset
    result._update_position()
    result._partition_records = None
    return replace(fetch, is_newest=_is_newest(result, tp, fetch.next_offset))


def read(pending: Pending, *, find: bool = False, is_counted: bool = False) -> Drained:
    """The fetch of what is pending. Raises as `drain` does.

    It may run in any thread while the consumer goes on, and its answer may be thrown away. With
    `find`, which needs the kernels, records are places in the fetch instead of objects. If
    `is_counted`, the records are decoded.
    """
    tp, held = pending
    start, batches = held.next_fetch_offset, held._records
    reader = FoundRecords(batches.raw) if find and has_places(batches.raw) else MadeRecords()
    taken: list[Any] = []
    passed: list[_Passed] = []
    while batches.has_next() and not reader.size.is_enough:
        batch = batches.next_batch()
        if held._check_crcs and not reader.is_whole(batch):
            raise CorruptRecordException(f"Invalid CRC - {tp}")
        if _is_aborted(batch, held) or batch.is_control_batch:
            reader.skip(batch)
        else:
            reader.take(batch)
            taken.append(batch)
        mark = BatchMark(batch.base_offset, batch.crc, batch.max_timestamp)
        passed.append(_Passed(mark, batch.next_offset, batches.end, batch.leader_epoch))
    unpacked_bytes = reader.size.unpacked_bytes
    records = reader.records(tp.partition)
    if records is None:
        # A batch cannot be read: then each is looked at by itself.
        records = made_of(taken).records(tp.partition)
    decoded = decode(records, is_bounded=True).encoded() if is_counted else None
    if decoded is not None and (end := decoded.end) is not None:
        passed = [one for one in passed if one.mark.base_offset < end]
        records = records.cut(0, int(np.searchsorted(records.offsets, end)))
    next_offset = passed[-1].next_offset if passed else start
    if len(records) and records.offsets[0] < start:
        # A fetch begins with the whole batch that holds the offset asked for.
        records = records.cut(int(np.searchsorted(records.offsets, start)), len(records))
        decoded = decoded and decoded.part(start, next_offset)
    fetch = Fetch(
        start,
        next_offset,
        records,
        passed[0].mark if passed else None,
        passed[-1].mark if passed else None,
        passed[-1].end_bytes if passed else 0,
        decoded=decoded,
        epochs=(passed[0].epoch, passed[-1].epoch) if passed else None,
    )
    return Drained(fetch, unpacked_bytes)


class _Passed(NamedTuple):
    """A batch that was read or left out; the next offset, the bytes up to its end, and the epoch of
    the leader that took it."""

    mark: BatchMark
    next_offset: int
    end_bytes: int
    epoch: int


def _is_newest(result: FetchResult, tp: TP, next_offset: int) -> bool:
    """Whether the broker had nothing after that when it answered last.

    Of open transactions nothing can be had, so the last stable offset is the end, where told.
    """
    state = result._assignment.state_value(tp)
    is_told = state.lso is not None and state.lso >= 0
    end: int | None = state.lso if is_told else state.highwater
    return end is not None and next_offset >= end


def _is_aborted(batch: Any, pending: Any) -> bool:
    """Whether its transaction was aborted. Batches are asked about in log order, markers too."""
    if batch.producer_id is None:
        return False
    pending._consume_aborted_up_to(batch.base_offset)
    if batch.is_control_batch and pending._contains_abort_marker(batch):
        pending._aborted_producers.discard(batch.producer_id)
    return batch.is_transactional and batch.producer_id in pending._aborted_producers


keep_bytes_of_fetches()
