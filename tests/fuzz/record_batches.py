"""What a broker answers a fetch with: record batches, as the workers' transport reads them."""

from __future__ import annotations

import gzip
import struct

import numpy as np
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from crc32c import crc32c

import pipeline.native.records  # noqa: F401 - so that its compilation is not taken for a hang
from pipeline.decode import decode
from pipeline.found_records import FoundRecords, has_places
from pipeline.kept_batches import KeptBatch
from pipeline.record_batches import KeptRecords, made_of
from schemas.records import Records
from tests.kit.odd_headers import odd_batch

PROMISE = "a batch whose checksum holds is read, or is one dead letter; its offsets ascend in it"

_CRC_AT, _ATTRIBUTES_AT, _SIZE_AT = 17, 21, 8


def seeds() -> list[bytes]:
    plain = [_batch(codec) for codec in range(5)]
    odd = odd_batch(b"a", b"b", b"c", headers=[("tally-kind", b"heartbeat")], odd=1)
    packed = bytearray(odd)
    packed[61:] = gzip.compress(bytes(packed[61:]))
    packed[22] |= 1
    old = struct.pack(">qiIbb", 0, 54, 0, 0, 0) + struct.pack(">ii", -1, -100) + bytes(40)
    right = [b"\0" + data for data in (*plain, odd, bytes(packed), plain[0] + odd)]
    return [*right, b"\1" + old, *(b"\1" + _old_batch(magic) for magic in (0, 1))]


def _batch(codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for number in range(3):
        value = b'{"counter":"likes:post-%d"}' % number
        builder.append(number, 1_760_000_000_000 + number, b"k", value, [("x", b"y")])
    return bytes(builder.build())


def _old_batch(magic: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, 1_760_000_000_000, b"k", b'{"counter":"likes:post-1"}')
    return bytes(builder.build())


def check(data: bytes) -> None:
    """The first byte tells whether lengths and checksums are made right again, as a broker
    would have seen to; without that hardly any input would get past them."""
    raw = data[1:] if data[:1] == b"\1" else _made_right(data[1:])
    batches = _batches(raw)
    made = made_of(batches).records(0)
    assert (np.diff(made.offsets) > 0).all() or len(batches) > 1
    decode(made)
    if batches and has_places(raw):
        finding = FoundRecords(raw)
        for batch in batches:
            finding.take(batch)
        found = finding.records(0)
        assert found is None or _columns(found) == _columns(made), "both readers read alike"


def _made_right(raw: bytes) -> bytes:
    """As one batch of format 2 that is whole and whose checksum holds."""
    batch = bytearray(raw.ljust(61, b"\0"))
    batch[16] = 2
    struct.pack_into(">i", batch, _SIZE_AT, len(batch) - 12)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)


def _batches(raw: bytes) -> list[KeptBatch]:
    """The batches whose checksums hold, up to the first of which it does not."""
    fetched, found = KeptRecords(raw), []
    while (batch := _next(fetched)) is not None and batch.validate_crc():
        found.append(batch)
    return found


def _columns(records: Records) -> list[object]:
    values = [list(column) for column in (records.keys, records.values, records.headers)]
    return [records.offsets.tolist(), records.timestamps_ms.tolist(), *values]


def _next(fetched: KeptRecords) -> KeptBatch | None:
    """A batch of any format. aiokafka says itself that one is cut off, and fetches it again."""
    try:
        return fetched.next_batch() if fetched.has_next() else None
    except CorruptRecordException:
        return None
