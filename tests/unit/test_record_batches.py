"""A batch with a header name that is no text is read like any other."""

import gzip
import struct
from itertools import pairwise

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import calc_crc32c

from pipeline.record_batches import KeptRecords, records_of
from tests.kit.odd_headers import odd_batch

NAME = "\\xff\\xfe" + "x" * 24


def read(raw: bytes) -> list[tuple[int, int, bytes | None, list[tuple[str, bytes | None]]]]:
    fetched = KeptRecords(raw)
    found = []
    while fetched.has_next():
        batch = fetched.next_batch()
        assert batch.validate_crc()
        for record in records_of(batch, fetched):
            assert record.key is None
            found.append((record.offset, record.timestamp, record.value, list(record.headers)))
    return found


def test_the_odd_header_is_kept_readable_and_the_other_records_are_as_they_were() -> None:
    raw = odd_batch(b"a", b"b", b"c", headers=[("tally-kind", b"increments")], odd=1)
    values = read(raw)
    assert [(offset, value) for offset, _, value, _ in values] == [(0, b"a"), (1, b"b"), (2, b"c")]
    kind = ("tally-kind", b"increments")
    assert [headers for *_, headers in values] == [[kind], [(NAME, b"odd"), kind], [kind]]
    assert {timestamp for _, timestamp, *_ in values} == {1_760_000_000_000}


def test_an_odd_batch_among_others_is_found_by_its_offset() -> None:
    batches = [bytearray(odd_batch(b"a", b"b", odd=number % 2)) for number in range(3)]
    for number, batch in enumerate(batches):
        batch[:8] = struct.pack(">q", 10 * number)
    offsets = [offset for offset, *_ in read(b"".join(batches))]
    assert offsets == [0, 1, 10, 11, 20, 21]
    assert all(one < other for one, other in pairwise(offsets))


def test_a_compressed_odd_batch_is_read() -> None:
    batch = bytearray(odd_batch(b"a", b"b"))
    batch[61:] = gzip.compress(bytes(batch[61:]))
    batch[22] |= 1
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[17:21] = struct.pack(">I", calc_crc32c(bytes(batch[21:])))
    assert [value for _, _, value, _ in read(bytes(batch))] == [b"a", b"b"]


def test_the_logs_own_time_is_taken_where_the_log_sets_it() -> None:
    batch = bytearray(odd_batch(b"a"))
    batch[22] |= 8
    batch[35:43] = struct.pack(">q", 1_770_000_000_000)
    batch[17:21] = struct.pack(">I", calc_crc32c(bytes(batch[21:])))
    assert [timestamp for _, timestamp, _, _ in read(bytes(batch))] == [1_770_000_000_000]


def test_a_batch_that_is_not_whole_is_still_corrupt() -> None:
    batch = bytearray(odd_batch(b"a", b"b", odd=1))
    batch[61] = 0
    fetched = KeptRecords(bytes(batch))
    with pytest.raises(CorruptRecordException):
        records_of(fetched.next_batch(), fetched)
