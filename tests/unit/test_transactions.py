"""What a transaction wrote is read if it was committed, and left out if it was aborted."""

import struct
from typing import Any

from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from faust.types import TP

from pipeline.draining import drain
from pipeline.fetches import Fetch, cut_after
from pipeline.record_batches import KeptRecords

ABORT, COMMIT = 0, 1
NO_PRODUCER = -1
PLACE = ("increments", 3)


def batch(base_offset: int, producer: int, *values: bytes, marker: int | None = None) -> bytes:
    """A batch of a producer's transaction, or its end if there is a `marker`."""
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=0,
        is_transactional=int(producer != NO_PRODUCER),
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    key = None if marker is None else struct.pack(">hh", 0, marker)
    for number, value in enumerate(values):
        builder.append(number, 1_760_000_000_000, key, value, [])
    raw = bytearray(builder.build())
    raw[:8] = struct.pack(">q", base_offset)
    if marker is not None:
        raw[22] |= 0x20  # a control batch
    raw[17:21] = struct.pack(">I", calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


async def drained(
    raw: bytes,
    aborted: list[tuple[int, int]],
    start: int = 0,
    *,
    stable: int | None = None,
    end: int | None = None,
) -> Fetch:
    """What is made of a response that names aborted transactions by producer and first offset.

    It tells where the log's stable part and the log itself end.
    A coroutine because aiokafka makes its parts in a running loop.
    """
    tp = TopicPartition(*PLACE)
    subscriptions = SubscriptionState()
    subscriptions.assign_from_user({tp})
    assignment: Any = subscriptions.subscription.assignment
    state = assignment.state_value(tp)
    state.seek(start)
    state.lso, state.highwater = stable, end
    pending = PartitionRecords(
        tp,
        KeptRecords(raw),
        aborted,
        start,
        None,
        None,
        check_crcs=True,
        isolation_level=READ_COMMITTED,
    )
    result = FetchResult(tp, assignment=assignment, partition_records=pending, backoff=0)
    found = drain(result, TP(*PLACE))
    assert found is not None
    return found


LOG = b"".join(
    [
        batch(0, 7, b"aborted", b"aborted"),
        batch(2, 8, b"committed"),
        batch(3, NO_PRODUCER, b"plain"),
        batch(4, 7, b"aborted"),
        batch(5, 7, b"", marker=ABORT),
        batch(6, 8, b"", marker=COMMIT),
        batch(7, 7, b"the same producer's next"),
        batch(8, 7, b"", marker=COMMIT),
    ]
)


async def test_aborted_records_are_left_out_and_their_offsets_passed() -> None:
    fetch = await drained(LOG, [(7, 0)])
    assert fetch.records.values == [b"committed", b"plain", b"the same producer's next"]
    assert fetch.records.offsets.tolist() == [2, 3, 7]
    assert (fetch.start, fetch.next_offset) == (0, 9)


async def test_a_fetch_from_within_an_aborted_transaction_leaves_out_the_rest_of_it() -> None:
    fetch = await drained(
        b"".join([batch(4, 7, b"aborted"), batch(5, 7, b"", marker=ABORT)]), [(7, 0)], 4
    )
    assert (fetch.start, len(fetch.records), fetch.next_offset) == (4, 0, 6)


async def test_without_aborted_transactions_everything_but_markers_is_read() -> None:
    assert (await drained(LOG, [])).records.offsets.tolist() == [0, 1, 2, 3, 4, 7]


async def test_a_fetch_is_the_newest_if_the_broker_had_no_more() -> None:
    assert (await drained(LOG, [], end=9)).is_newest
    assert not (await drained(LOG, [], end=10)).is_newest
    assert not (await drained(LOG, [])).is_newest, "who was told nothing does not know"


async def test_behind_an_open_transaction_there_is_no_more_to_be_had() -> None:
    assert (await drained(LOG, [], stable=9, end=20)).is_newest
    assert not (await drained(LOG, [], stable=10, end=20)).is_newest
    assert (await drained(LOG, [], stable=-1, end=9)).is_newest, "an old broker tells no such thing"


async def test_what_is_cut_off_a_fetch_is_not_the_newest_but_its_rest_is() -> None:
    before, after = cut_after(await drained(LOG, [], end=9), 3)
    assert (before.is_newest, after.is_newest) == (False, True)
