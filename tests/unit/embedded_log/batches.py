"""Record batches as producers send them, made by aiokafka's own builder."""

import struct

import cramjam
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from pipeline.embedded.log.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD

Pair = tuple[bytes | None, bytes | None]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def make_batch(
    pairs: list[Pair],
    *,
    codec: int = NONE,
    timestamps_ms: list[int] | None = None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> memoryview:
    """A writable batch that starts at offset 0; times are 1000, 1001, ... unless given."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer_id, epoch, sequence, 1 << 24)
    times_ms = timestamps_ms or [1000 + i for i in range(len(pairs))]
    for number, (key, value) in enumerate(pairs):
        builder.append(number, timestamp=times_ms[number], key=key, value=value, headers=[])
    return memoryview(bytearray(builder.build()))


def make_values(count: int, **options: int) -> memoryview:
    """A batch of `count` records without keys."""
    return make_batch([(None, b"value-%d" % i) for i in range(count)], **options)  # type: ignore[arg-type]  # options are make_batch's own numbers


def make_dense(count: int, *, codec: int = ZSTD, bytes_unpacked: int | None = None) -> memoryview:
    """A batch that claims `count` of the smallest records there are, all with an empty key.

    They are there unless `bytes_unpacked` cuts them off.
    """
    plain = (b"\x0c\0\0\0\0\x01\0" * count)[:bytes_unpacked]
    payload = bytes(cramjam.zstd.compress(plain)) if codec == ZSTD else plain
    length = HEADER_SIZE + len(payload) - LENGTH_OVERHEAD
    head = HEADER.pack(0, length, 0, 2, 0, codec, count - 1, 1, 1, -1, -1, -1, count)
    return reseal(memoryview(bytearray(head + payload)))


def reseal(batch: memoryview) -> memoryview:
    """Make the checksum right again after a test has changed the header."""
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch
