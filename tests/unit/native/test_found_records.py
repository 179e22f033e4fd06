"""Records that are found by their places are those that aiokafka makes objects of."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline.found_records import FoundRecords, has_places
from pipeline.lanes import OWN_HEADERS
from pipeline.record_batches import KeptRecords, MadeRecords
from tests.kit.odd_headers import odd_batch

if TYPE_CHECKING:
    from schemas.records import Records

NOW_MS = 1_790_000_000_000
CODECS = range(5)  # none, gzip, snappy, lz4, zstd

blobs = st.none() | st.binary(max_size=40)
names = st.sampled_from([*sorted(OWN_HEADERS), "trace", "é", ""])
records = st.tuples(blobs, blobs, st.lists(st.tuples(names, st.binary(max_size=9)), max_size=3))
batches = st.tuples(st.sampled_from(CODECS), st.lists(records, min_size=1, max_size=6))

Batch = tuple[int, list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]]


def written(base_offset: int, batch: Batch) -> bytes:
    codec, rows = batch
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for row, (key, value, headers) in enumerate(rows):
        # A gap of offsets, as compaction leaves it, and times that go back.
        assert builder.append(2 * row, NOW_MS - row, key, value, headers) is not None
    data = bytearray(builder.build())
    data[:8] = struct.pack(">q", base_offset)
    return bytes(data)


def read(reader: FoundRecords | MadeRecords, fetched: KeptRecords) -> Records | None:
    while fetched.has_next():
        batch = fetched.next_batch()
        assert reader.is_whole(batch)
        reader.take(batch)
    return reader.records(3)


def is_found(raw: bytes) -> bool:
    """Whether the kernels can read all batches."""
    return read(FoundRecords(raw), KeptRecords(raw)) is not None


def found(raw: bytes) -> Records:
    records = read(FoundRecords(raw), KeptRecords(raw))
    assert records is not None
    return records


def made(raw: bytes) -> Records:
    records = read(MadeRecords(), KeptRecords(raw))
    assert records is not None
    return records


def columns(records: Records) -> tuple[object, ...]:
    return (
        records.partition,
        records.offsets.tolist(),
        records.timestamps_ms.tolist(),
        list(records.keys),
        list(records.values),
        list(records.headers),
    )


@given(st.lists(batches, max_size=4))
@settings(deadline=None, print_blob=True)
def test_whatever_batches_hold_both_ways_read_the_same(written_batches: list[Batch]) -> None:
    raw = b"".join(written(100 * place, batch) for place, batch in enumerate(written_batches))
    assert has_places(raw)
    assert columns(found(raw)) == columns(made(raw))


@given(st.lists(batches, min_size=1, max_size=3))
@settings(deadline=None, print_blob=True)
def test_marked_are_those_with_a_header_that_tells_what_a_record_is(
    written_batches: list[Batch],
) -> None:
    raw = b"".join(written(100 * place, batch) for place, batch in enumerate(written_batches))
    rows = [headers for _, batch in written_batches for _, _, headers in batch]
    own = [tuple(one for one in headers if one[0] in OWN_HEADERS) for headers in rows]
    assert list(found(raw).headers) == own
    assert found(raw).marked() == [row for row, headers in enumerate(own) if headers]


def test_a_cut_of_them_is_that_of_every_column() -> None:
    batch: Batch = (0, [(None, bytes([row]), [("tally-kind", bytes([row]))]) for row in range(5)])
    raw = written(0, batch)
    assert columns(found(raw).cut(1, 4)) == columns(made(raw).cut(1, 4))
    assert found(raw).cut(1, 4).marked() == [0, 1, 2]


def test_a_header_whose_name_is_no_text_hides_no_other() -> None:
    raw = odd_batch(b"a", b"b", headers=[("tally-kind", b"increments")], odd=1)
    assert columns(found(raw)) == columns(made(raw))
    assert list(found(raw).headers) == [(("tally-kind", b"increments"),)] * 2


def test_the_logs_own_time_is_taken_where_the_log_sets_it() -> None:
    raw = bytearray(written(0, (0, [(None, b"a", []), (None, b"b", [])])))
    raw[22] |= 8
    raw[35:43] = struct.pack(">q", NOW_MS + 77)
    assert FoundRecords(bytes(raw)).is_whole(KeptRecords(bytes(raw)).next_batch()) is False
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    assert found(bytes(raw)).timestamps_ms.tolist() == [NOW_MS + 77] * 2
    assert columns(found(bytes(raw))) == columns(made(bytes(raw)))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 1_000_000_000])
def test_a_batch_that_says_a_wrong_number_of_records_is_not_found(count: int) -> None:
    raw = bytearray(written(0, (0, [(None, b"a", []), (None, b"b", [])])))
    raw[57:61] = struct.pack(">i", count)
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    assert not is_found(bytes(raw))
    assert made(bytes(raw)).values == [bytes(raw)]


def test_a_batch_of_which_no_record_is_left_is_read() -> None:
    raw = bytearray(written(0, (0, [(None, b"a", [])])))[:61]
    raw[8:12] = struct.pack(">i", len(raw) - 12)
    raw[57:61] = struct.pack(">i", 0)
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    assert len(found(bytes(raw))) == len(made(bytes(raw))) == 0


@pytest.mark.parametrize("delta", [0, 5, -1])
def test_a_batch_whose_offsets_are_out_of_place_is_not_found(delta: int) -> None:
    raw = bytearray(written(0, (0, [(None, b"a", []), (None, b"b", [])])))
    second = 61 + 1 + raw[61] // 2
    raw[second + 3] = delta * 2 if delta >= 0 else -delta * 2 - 1
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    assert not is_found(bytes(raw))


@given(st.integers(0, 2), st.integers(0, 20), st.integers(0, 255))
@settings(deadline=None, print_blob=True)
def test_bytes_that_are_no_records_are_not_found_or_read_alike(
    record: int, place: int, byte: int
) -> None:
    whole = written(0, (0, [(b"k", b"value", [("trace", b"1")])] * 3))
    size = (len(whole) - 61) // 3
    assume(place < size)
    raw = bytearray(whole)
    raw[61 + record * size + place] = byte
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    # It may be the stricter of the two: what is not found is made.
    if is_found(bytes(raw)):
        assert columns(found(bytes(raw))) == columns(made(bytes(raw)))


def test_attributes_that_nobody_sets_are_read_alike_by_both() -> None:
    """They are one byte; aiokafka takes it for a number of any length."""
    for attributes in range(256):
        raw = bytearray(written(0, (0, [(b"key", b"value", []), (b"key", b"value", [])])))
        raw[62] = attributes
        raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
        assert is_found(bytes(raw)) == (attributes < 128)
        if attributes < 128:
            assert columns(found(bytes(raw))) == columns(made(bytes(raw)))


def test_a_batch_that_cannot_be_decompressed_is_not_found() -> None:
    raw = bytearray(written(0, (0, [(None, b"a", [])])))
    for codec in CODECS[1:]:
        raw[22] = codec
        finding = FoundRecords(bytes(raw))
        finding.take(None)
        assert finding.records(0) is None


def test_batches_of_older_formats_have_no_places() -> None:
    raw = bytearray(written(0, (0, [(None, b"a", [])])))
    raw[16] = 1
    assert not has_places(bytes(raw))
    assert has_places(b"")


def test_a_last_batch_that_the_broker_cut_off_is_left_for_the_next_fetch() -> None:
    first, second = written(0, (0, [(None, b"a", [])])), written(10, (0, [(None, b"b", [])]))
    for size in range(len(second)):
        raw = first + second[:size]
        assert has_places(raw)
        assert columns(found(raw)) == columns(made(raw)) == columns(made(first))


@pytest.mark.parametrize("size", [-(2**31), -1000, -100, -61, -60, -13, -12, -11, -1, 0, 3, 30, 48])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_batch_with_a_damaged_length_has_no_places_and_is_corrupt(size: int, number: int) -> None:
    """The checksum does not cover the length. Where it goes back, looking must end all the same."""
    whole = [bytearray(written(10 * place, (0, [(None, b"a", [])]))) for place in range(3)]
    whole[number][8:12] = struct.pack(">i", size)
    raw = b"".join(whole)
    assert not has_places(raw)
    with pytest.raises(CorruptRecordException):
        made(raw)
