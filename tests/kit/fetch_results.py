"""What a consumer holds after a broker has answered a fetch, without a broker."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition
from crc32c import crc32c
from faust.types import TP

from pipeline.record_batches import KeptRecords
from schemas.frames import FRAME_CONTENT_TYPE, frame_bytes

PLACE = TP("increments", 3)
NOW_MS = 1_790_000_000_000
ZSTD = 4
FRAME = [("content-type", FRAME_CONTENT_TYPE.encode())]


def batch_of(
    base_offset: int,
    *values: bytes,
    headers: list[tuple[str, bytes]] | None = None,
    codec: int = ZSTD,
    key: bytes | None = None,
) -> bytes:
    """A batch of records, all with the same key and headers."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24)
    for number, value in enumerate(values):
        assert builder.append(number, NOW_MS, key, value, headers or []) is not None
    return struct.pack(">q", base_offset) + bytes(builder.build())[8:]


def claiming(batch: bytes, records: int) -> bytes:
    """The same batch, saying that it has another number of records."""
    changed = bytearray(batch)
    changed[57:61] = struct.pack(">i", records)
    changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


def frame_of(counter: str, rows: int) -> bytes:
    """A frame that writes its one counter once, however many rows it has."""
    indices = pa.array([0] * rows, pa.int8())
    counters = pa.DictionaryArray.from_arrays(indices, pa.array([counter]))
    return frame_bytes(pa.record_batch([counters], ["counter"]))


def result_of(raw: bytes, start: int = 0, tp: TP = PLACE) -> FetchResult:
    """A result from `start` on, of a partition that is assigned. Needs a running loop."""
    place = TopicPartition(*tp)
    subscriptions = SubscriptionState()
    subscriptions.assign_from_user({place})
    assignment: Any = subscriptions.subscription.assignment
    assignment.state_value(place).seek(start)
    held = PartitionRecords(
        place,
        KeptRecords(raw),
        [],
        start,
        None,
        None,
        check_crcs=True,
        isolation_level=READ_COMMITTED,
    )
    return FetchResult(place, assignment=assignment, partition_records=held, backoff=0)
