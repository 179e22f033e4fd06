"""A batch with a header name that is no text is read like any other."""

import gzip
import random
import struct
import time
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import cramjam
import numpy as np
import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from pipeline import draining
from pipeline.bounded_codecs import UNPACKED_BYTES_MAX, gzip_decode
from pipeline.decode import UNREADABLE_REASON, decode
from pipeline.errors import BadInputError
from pipeline.record_batches import KeptRecords
from schemas.records import Records
from tests.kit.fetch_results import PLACE, batch_of, result_of
from tests.kit.odd_headers import odd_batch
from tests.unit.embedded_log.batches import make_batch

NAME = "\\xff\\xfe" + "x" * 24


def read(raw: bytes) -> list[tuple[int, int, bytes | None, list[tuple[str, bytes | None]]]]:
    fetched = KeptRecords(raw)
    found = []
    while fetched.has_next():
        batch = fetched.next_batch()
        assert batch.validate_crc()
        for record in batch:
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


def fetched_batch(raw: bytes) -> tuple[list[Any], list[int], list[str]]:
    """Records and offsets of one batch, and why the decoder refuses what is in it."""
    records, offsets = KeptRecords(raw).next_batch().placed()
    decoded = decode(
        Records(
            0,
            offsets,
            np.array([record.timestamp for record in records]),
            [record.key for record in records],
            [record.value for record in records],
            [tuple(record.headers) for record in records],
        )
    )
    return records, offsets.tolist(), [one.reason for one in decoded.refused]


def resealed(batch: bytearray) -> bytes:
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[17:21] = struct.pack(">I", calc_crc32c(bytes(batch[21:])))
    return bytes(batch)


def packed(payload: bytes, codec: int) -> bytes:
    batch = bytearray(odd_batch(b"a")[:61])
    batch[22] |= codec
    return resealed(batch + payload)


@pytest.mark.parametrize("odd", [0, 1], ids=["odd names", "plain"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda batch: batch.__setitem__(61, 0),
        lambda batch: batch.__setitem__(slice(-5, None), b"\xff" * 5),
        lambda batch: batch.__delitem__(slice(-9, None)),
        lambda batch: batch.extend(b"\0"),
        lambda batch: batch.__setitem__(slice(57, 61), struct.pack(">i", 2**31 - 1)),
    ],
    ids=["length", "header count", "cut short", "too long", "count of records"],
)
def test_a_batch_that_cannot_be_read_is_one_dead_letter_with_all_its_bytes(
    damage: Callable[[bytearray], None], odd: int
) -> None:
    batch = bytearray(odd_batch(b"a", b"b", odd=odd) if odd == 0 else plain_batch())
    damage(batch)
    raw = resealed(batch)
    records, offsets, reasons = fetched_batch(raw)
    assert offsets == [0]
    assert [record.value for record in records] == [raw]
    assert reasons == [UNREADABLE_REASON]


def plain_batch() -> bytes:
    return bytes(make_batch([(None, b"a"), (None, b"b")]))


@pytest.mark.parametrize("delta", [0, 1, 5, -1])
def test_a_batch_whose_offsets_are_out_of_place_cannot_be_read(delta: int) -> None:
    batch = bytearray(make_batch([(None, b"a"), (None, b"b")]))
    second = 61 + 1 + batch[61] // 2
    batch[second + 3] = delta * 2 if delta >= 0 else -delta * 2 - 1
    _, offsets, reasons = fetched_batch(resealed(batch))
    expected = ([0, 1], ["not JSON", "not JSON"]) if delta == 1 else ([0], [UNREADABLE_REASON])
    assert (offsets, reasons) == expected


BOMB = bytes(UNPACKED_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        (lambda: gzip.compress(BOMB, 1), 1),
        (lambda: b"\xff\xff\xff\xff\x0f" + bytes(100), 2),
        (lambda: bytes(cramjam.lz4.compress(BOMB)), 3),
        (lambda: bytes(cramjam.zstd.compress(BOMB)), 4),
    ],
    ids=["gzip", "snappy", "lz4", "zstd"],
)
def test_a_batch_that_unpacks_to_too_much_is_refused_before_it_does(
    payload: Callable[[], bytes], codec: int
) -> None:
    _, offsets, reasons = fetched_batch(packed(payload(), codec))
    assert (offsets, reasons) == ([0], [UNREADABLE_REASON])


@pytest.mark.parametrize("codec", range(5))
def test_what_clients_compress_is_read(codec: int) -> None:
    values = [b"value %d" % number * 500 for number in range(2000)]
    raw = bytes(make_batch([(b"k", value) for value in values], codec=codec))
    records, offsets, _ = fetched_batch(raw)
    assert [record.value for record in records] == values
    assert offsets == list(range(2000))


def test_a_large_batch_that_compresses_well_is_read_as_well() -> None:
    value = random.Random(1).randbytes(700_000) + bytes(UNPACKED_BYTES_MAX // 2)
    for codec in (3, 4):
        records, _, _ = fetched_batch(bytes(make_batch([(None, value)], codec=codec)))
        assert [record.value for record in records] == [value]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("lengths", [(-1, -100), (-100, 5)])
def test_a_batch_of_an_old_format_with_a_length_below_none_is_corrupt(
    magic: int, lengths: tuple[int, int]
) -> None:
    stamp = b"" if magic == 0 else bytes(8)
    body = struct.pack(">Ibb", 0, magic, 0) + stamp + struct.pack(">ii", *lengths) + bytes(40)
    fetched = KeptRecords(struct.pack(">qi", 0, len(body)) + body)
    with pytest.raises(CorruptRecordException):
        fetched.next_batch()


def test_many_gzip_members_cost_no_more_than_their_bytes() -> None:
    """It was the square of their number: a minute for a batch of a megabyte."""
    empty, full = gzip.compress(b"", mtime=0), gzip.compress(b"a", mtime=0)
    started_s = time.process_time()
    assert gzip_decode(empty * 50_000 + full + bytes(7) + full) == b"aa"
    assert time.process_time() - started_s < 10
    with pytest.raises(BadInputError, match="cut short"):
        gzip_decode(full + full[:-1])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "gzip"])
async def test_a_batch_of_an_old_format_is_one_dead_letter_and_the_stream_goes_on(
    magic: Literal[0, 1], codec: int
) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    builder.append(0, 1_760_000_000_000, None, b'{"counter":"a:b"}')
    old = struct.pack(">q", 4) + bytes(builder.build())[8:]
    raw = old + batch_of(5, b'{"counter":"a:c"}')
    for find in (False, True):
        held = draining.pending(result_of(raw, 4), PLACE)
        fetch = draining.read(held, find=find, is_counted=True).fetch
        assert fetch.decoded is not None
        assert [(one.offset, one.reason) for one in fetch.decoded.refused] == [
            (4, UNREADABLE_REASON)
        ]
        assert fetch.decoded.refused[0].value == old
        assert fetch.decoded.columns["counter"].to_pylist() == ["a:c"]
        if codec == 0:  # aiokafka gives no time to what it packs
            assert fetch.records.timestamps_ms[0] == (1_760_000_000_000 if magic else -1)
        assert (fetch.start, fetch.next_offset) == (4, 6)
        assert fetch.first_batch is not None
        assert fetch.first_batch.base_offset == 4
    damaged = bytearray(raw)
    damaged[len(old) - 1] ^= 1
    with pytest.raises(CorruptRecordException):
        draining.read(draining.pending(result_of(bytes(damaged), 4), PLACE))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_an_old_format_that_makes_no_sense_is_one_dead_letter_if_it_came_so(
    magic: int,
) -> None:
    stamp = b"" if magic == 0 else bytes(8)
    checked = struct.pack(">bb", magic, 0) + stamp + struct.pack(">ii", -100, 5) + bytes(40)
    body = struct.pack(">I", zlib.crc32(checked)) + checked
    raw = struct.pack(">qi", 7, len(body)) + body
    records, offsets, reasons = fetched_batch(raw)
    assert (offsets, reasons) == ([7], [UNREADABLE_REASON])
    assert [record.value for record in records] == [raw]
