"""A fetch has a size when it is unpacked, and what becomes of a record never depends on it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline import bounded_headers, fetch_bounds, found_records, kept_batches, record_batches
from pipeline.decode import COLUMNS, UNREADABLE_REASON, Decoded, decode
from pipeline.draining import drain, pending, read
from pipeline.fetches import cut_after
from pipeline.found_records import FoundRecords
from pipeline.record_batches import KeptRecords, made_of
from schemas import frame_weights
from tests.kit.fetch_results import FRAME, PLACE, batch_of, claiming, frame_of, result_of

if TYPE_CHECKING:
    from pipeline.fetches import Fetch

Told = list[tuple[int, int, str]]
BOTH = pytest.mark.parametrize("find", [False, True], ids=["made", "found"])


def pieces(raw: bytes, start: int = 0, *, find: bool = False) -> list[Fetch]:
    """What a worker reads of the bytes, piece after piece, each from where the last one ended."""
    found: list[Fetch] = []
    end = max(end for _, end in spans(raw))
    while start < end:
        rest = b"".join(raw[a:b] for (a, b), (_, after) in batches_of(raw) if after > start)
        fetch = read(pending(result_of(rest, start), PLACE), find=find, is_counted=True).fetch
        assert (fetch.start, fetch.next_offset > start) == (start, True), "it goes on"
        found.append(fetch)
        start = fetch.next_offset
    return found


def batches_of(raw: bytes) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Each batch's bytes and offsets."""
    kept, found = KeptRecords(raw), []
    while kept.has_next():
        first = kept.end
        batch = kept.next_batch()
        found.append(((first, kept.end), (batch.base_offset, batch.next_offset)))
    return found


def spans(raw: bytes) -> list[tuple[int, int]]:
    return [offsets for _, offsets in batches_of(raw)]


def told(fetches: list[Fetch]) -> Told:
    """Every row and every refusal, by its place."""
    found: Told = []
    for fetch in fetches:
        assert fetch.decoded is not None
        columns = fetch.decoded.columns.select(["offset", "row", "counter"]).to_pylist()
        found += [(one["offset"], one["row"], one["counter"]) for one in columns]
        found += [(one.offset, one.row, one.reason) for one in fetch.decoded.refused]
    return sorted(found)


EVENTS = [b'{"counter":"a:%d","x":"%s"}' % (number, b"x" * 1000) for number in range(12)]


@BOTH
async def test_a_fetch_ends_after_the_batch_that_fills_it_and_the_rest_is_read_next(
    monkeypatch: pytest.MonkeyPatch, *, find: bool
) -> None:
    raw = b"".join(batch_of(2 * n, EVENTS[2 * n], EVENTS[2 * n + 1]) for n in range(6))
    assert len(raw) < 2000, "it is small on the wire"
    whole = pieces(raw, find=find)
    assert [fetch.next_offset for fetch in whole] == [12]
    monkeypatch.setattr(fetch_bounds, "UNPACKED_BYTES_MAX", 4000)
    cut = pieces(raw, find=find)
    assert [fetch.next_offset for fetch in cut] == [4, 8, 12]
    assert told(cut) == told(whole)
    assert [fetch.last_batch for fetch in cut][-1] == whole[0].last_batch
    assert sum(fetch.size_bytes for fetch in cut) == whole[0].size_bytes


async def test_the_position_is_where_the_fetch_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_bounds, "UNPACKED_BYTES_MAX", 1)
    result = result_of(batch_of(0, b"a", b"b") + batch_of(2, b"c"))
    fetch = drain(result, PLACE)
    assert fetch is not None
    assert (len(fetch.records), fetch.next_offset) == (2, 2)
    assert result._assignment.state_value(result._topic_partition).position == 2


@BOTH
async def test_a_fetch_has_so_many_rows_or_one_batch(
    monkeypatch: pytest.MonkeyPatch, *, find: bool
) -> None:
    frames = [frame_of(f"a:{number}", 10) for number in range(6)]
    raw = batch_of(0, *frames[:2], headers=FRAME) + batch_of(2, EVENTS[0])
    raw += batch_of(3, *frames[2:5], headers=FRAME) + batch_of(6, frames[5], headers=FRAME)
    whole = pieces(raw, find=find)
    assert [fetch.next_offset for fetch in whole] == [7]
    monkeypatch.setattr(fetch_bounds, "ROWS_MAX", 25)
    cut = pieces(raw, find=find)
    assert [fetch.next_offset for fetch in cut] == [3, 6, 7], "a batch with 30 rows is alone"
    assert told(cut) == told(whole)
    monkeypatch.setattr(fetch_bounds, "ROWS_MAX", 2**20)
    monkeypatch.setattr(fetch_bounds, "TEXT_BYTES_MAX", 65)
    assert [fetch.next_offset for fetch in pieces(raw, find=find)] == [3, 6, 7]


@BOTH
@pytest.mark.parametrize(
    ("bound", "value", "unit"),
    [("MAX_BATCH_ROWS", 30, "30 rows"), ("MAX_BATCH_TEXT_BYTES", 100, "100 bytes of text")],
)
async def test_frames_that_are_too_much_for_their_batch_are_dead_letters(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: int, unit: str, *, find: bool
) -> None:
    frames = [frame_of(f"a:{number}", 10) for number in range(6)]
    raw = batch_of(0, *frames, headers=FRAME) + batch_of(6, frames[0], headers=FRAME)
    monkeypatch.setattr(frame_weights, bound, value)
    whole = told(pieces(raw, find=find))
    refused = [(offset, reason) for offset, _, reason in whole if unit in reason]
    reason = f"frame: with it, its batch has more than {unit}; send smaller batches"
    assert refused == [(offset, reason) for offset in (3, 4, 5)]
    assert len(whole) == 10 * 4 + 3
    for start in range(1, 7):
        part = told(pieces(raw, start, find=find))
        assert part == [one for one in whole if one[0] >= start], "wherever a fetch begins"


async def test_a_fetch_that_is_cut_keeps_what_was_decided_of_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_weights, "MAX_BATCH_ROWS", 30)
    frames = [frame_of(f"a:{number}", 10) for number in range(6)]
    (fetch,) = pieces(batch_of(0, *frames, headers=FRAME))
    assert told([*cut_after(fetch, 3)]) == told([fetch])


def test_a_batch_that_claims_many_records_makes_no_room_for_them() -> None:
    body = bytes(1 << 20)
    raw = claiming(batch_of(0, body), len(body))
    finding = FoundRecords(raw)
    finding.take(None)
    tracemalloc.start()
    assert finding.records(0) is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@BOTH
async def test_a_batch_of_too_many_records_is_one_dead_letter(
    monkeypatch: pytest.MonkeyPatch, *, find: bool
) -> None:
    for module in (found_records, kept_batches):
        monkeypatch.setattr(module, "RECORDS_MAX", 3)
    raw = batch_of(0, *EVENTS[:3]) + batch_of(3, *EVENTS[:4]) + batch_of(7, EVENTS[0])
    counted = [(0, 0, "a:0"), (1, 0, "a:1"), (2, 0, "a:2"), (7, 0, "a:0")]
    assert told(pieces(raw, find=find)) == sorted([*counted, (3, 0, UNREADABLE_REASON)])


@BOTH
async def test_a_batch_of_too_many_headers_is_one_dead_letter(
    monkeypatch: pytest.MonkeyPatch, *, find: bool
) -> None:
    for module in (bounded_headers, found_records):
        monkeypatch.setattr(module, "HEADERS_MAX", 6)
    three = [("x", b"y"), ("tally-kind", b"increments"), ("trace", b"")]
    raw = batch_of(0, *EVENTS[:2], headers=three) + batch_of(2, *EVENTS[:3], headers=three)
    raw += batch_of(5, *EVENTS[:6], headers=[("x", b"y")])
    counted = [(0, 0, "a:0"), (1, 0, "a:1"), *((5 + n, 0, f"a:{n}") for n in range(6))]
    assert told(pieces(raw, find=find)) == sorted([*counted, (2, 0, UNREADABLE_REASON)])


@BOTH
@pytest.mark.parametrize("codec", [0, 4], ids=["plain", "zstd"])
async def test_millions_of_headers_are_never_made(codec: int, *, find: bool) -> None:
    """As objects they would be half a gigabyte; one of them is what makes a reader look."""
    headers = [("", b"")] * 4_000_000 + [("tally-kind", b"increments")]
    raw = batch_of(0, EVENTS[0], headers=headers, codec=codec) + batch_of(1, EVENTS[1])
    del headers
    tracemalloc.start()
    found = told(pieces(raw, find=find))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(0, 0, UNREADABLE_REASON), (1, 0, "a:1")]
    assert most < 128 << 20


async def test_a_fetch_ends_with_so_many_headers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_bounds, "ROWS_MAX", 10)
    traced = [("trace", b"%d" % number) for number in range(4)]
    raw = b"".join(batch_of(n, EVENTS[n], headers=traced) for n in range(6))
    assert [fetch.next_offset for fetch in pieces(raw)] == [2, 4, 6]


async def test_what_a_consumer_of_aiokafkas_is_given_at_once_is_bounded() -> None:
    """Deciders of strict counters read so. All of it would be gigabytes, out of a few kilobytes."""
    bomb = bytes(3 << 20)
    raw = b"".join(batch_of(number, bomb) for number in range(10))
    assert len(raw) < 10_000
    assert given(raw) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


async def test_so_it_is_where_headers_or_records_without_bytes_are_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_batches, "HANDED_OBJECTS_MAX", 8)
    traced = [("trace", b"")] * 3
    raw = b"".join(batch_of(n, b"", headers=traced) for n in range(4))
    raw += b"".join(batch_of(n, *[b""] * 4) for n in range(4, 16, 4))
    assert given(raw) == [[0, 1], [2, 3], [*range(4, 12)], [*range(12, 16)]]


async def test_who_is_given_records_is_not_given_others_headers_by_the_million() -> None:
    """Whoever goes through them keeps them all: of these, two hundred megabytes."""
    headers = [("", b"")] * 1_000_000 + [("tally-kind", b"increments")]
    raw = b"".join(batch_of(n, b"a", headers=headers) for n in range(3))
    del headers
    tracemalloc.start()
    kept: list[Any] = []
    for (first, end), (start, _) in batches_of(raw):
        kept += result_of(raw[first:end], start).getall()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [(one.offset, *one.headers) for one in kept] == [
        (n, ("tally-kind", b"increments")) for n in range(3)
    ]
    assert left < 1 << 20
    few = result_of(batch_of(0, b"a", headers=[("trace", b"x")])).getall()
    assert [*few[0].headers] == [("trace", b"x")], "nobody else's consumer misses them"


@BOTH
async def test_headers_of_one_batch_are_held_at_a_time_where_one_cannot_be_read(
    *, find: bool
) -> None:
    headers = [("", b"")] * 500_000
    raw = b"".join(batch_of(n, EVENTS[0], headers=headers) for n in range(6))
    del headers
    raw += claiming(batch_of(6, b"a"), 2)
    tracemalloc.start()
    found = told(pieces(raw, find=find))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [*((n, 0, "a:0") for n in range(6)), (6, 0, UNREADABLE_REASON)]
    assert most < 96 << 20


def given(raw: bytes) -> list[list[int]]:
    """The offsets that a consumer of aiokafka's is given, fetch after fetch."""
    found, start = [], 0
    end = max(end for _, end in spans(raw))
    while start < end:
        rest = b"".join(raw[a:b] for (a, b), (_, after) in batches_of(raw) if after > start)
        result = result_of(rest, start)
        records = result.getall()
        found.append([record.offset for record in records])
        start = result._assignment.state_value(result._topic_partition).position
        assert start == records[-1].offset + 1
    return found


def test_many_batches_that_cannot_be_read_are_found_in_one_pass() -> None:
    raw = b"".join(claiming(batch_of(n, b"a", codec=0), 2) for n in range(5000))
    kept = KeptRecords(raw)
    batches = [kept.next_batch() for _ in range(5000)]
    found = made_of(batches).records(0)
    assert [len(value or b"") for value in found.values] == [len(raw) // 5000] * 5000


def test_counters_that_are_too_long_for_one_array_are_encoded() -> None:
    chunk = pa.array(["x" * (64 << 20)])
    counters = pa.chunked_array([chunk] * 33)
    zeros = pa.array(np.zeros(33, np.int64))
    texts = pa.array([""] * 33)
    columns = {name: zeros.cast(COLUMNS.field(name).type) for name in COLUMNS.names}
    columns |= {"counter": counters, "region": texts, "member": texts, "id": texts}
    found = Decoded(pa.table(columns, schema=COLUMNS), [], [], {}).encoded().columns
    assert found["counter"].chunk(0).indices.to_pylist() == [0] * 33
    assert len(found["counter"].chunk(0).dictionary) == 1


def test_where_batches_are_not_known_each_frame_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_weights, "MAX_BATCH_ROWS", 5)
    kept = KeptRecords(batch_of(0, *[frame_of("a:b", 5)] * 3, headers=FRAME))
    records = made_of([kept.next_batch()]).records(3)
    assert decode(records).columns.num_rows == 5
    assert decode(replace(records, batch_offsets=None)).columns.num_rows == 15
