"""Each bound of the embedded log is reached, and what happens there is as docs/limits.md says."""

import asyncio
import gc
import random
import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from pipeline import bounded_headers
from pipeline.embedded.log import compaction, groups, server
from pipeline.embedded.log.batch import RECORDS_MAX, RejectedBatchError, admit
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.cleaner import Cleaner
from pipeline.embedded.log.compaction import KEY_BYTES_MAX, Source, map_key, newest_offsets
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.handlers import commits, fetch
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.index import ENTRIES_MAX, INTERVAL_BYTES, SparseIndex
from pipeline.embedded.log.protocol.wire import BODY_BYTES_MAX, Request, read_body
from pipeline.embedded.log.records import has_null_key, records_of
from pipeline.embedded.log.segment import INDEXES_MAX, Segment, shelved_index
from pipeline.embedded.log.server import Connection, Peers
from pipeline.errors import BadInputError
from tests.kit.fetch_results import batch_of
from tests.unit.embedded_log.batches import NONE, make_batch, make_dense, make_values
from tests.unit.embedded_log.test_cleaner import HandClock
from tests.unit.embedded_log.test_groups import Table
from tests.unit.embedded_log.test_partition import open_partition, read_all


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, HandClock(), Fsync.SECOND)
    yield made
    made.stop()


class Wire(asyncio.Transport):
    """A transport that remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5)})
        self.asked: list[str] = []

    def abort(self) -> None:
        self.asked.append("abort")

    def close(self) -> None:
        self.asked.append("close")

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")

    def write(self, _data: Any) -> None:
        self.asked.append("write")


def test_a_batch_of_too_many_headers_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = memoryview(batch_of(0, b"a", b"b", headers=[("x", b"y")] * 3, key=b"k"))
    assert not has_null_key(batch)
    assert [record.value for record in records_of(batch)] == [b"a", b"b"]
    monkeypatch.setattr(bounded_headers, "HEADERS_MAX", 5)
    assert has_null_key(batch)
    with pytest.raises(BadInputError, match="more headers than"):
        next(records_of(batch))


def received(connection: Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def connected(broker: Broker, peers: Peers) -> tuple[Connection, Wire]:
    connection, wire = Connection(broker, peers), Wire()
    connection.connection_made(wire)
    return connection, wire


async def test_one_connection_more_than_allowed_is_let_go(broker: Broker) -> None:
    peers = Peers(2)
    made = [await connected(broker, peers) for _ in range(3)]
    assert [wire.asked for _, wire in made] == [[], [], ["abort"]]
    for connection, _ in made:
        connection.connection_lost(None)
    assert not peers.connections


async def test_a_peer_that_asks_faster_than_it_is_answered_is_not_read_on(broker: Broker) -> None:
    connection, wire = await connected(broker, Peers(2))
    one = struct.pack(">ihhih", 10, 18, 0, 5, -1)
    received(connection, one * server.FRAMES_WAITING_MAX)
    assert wire.asked == ["pause"]
    for _ in range(50):
        await asyncio.sleep(0)
    assert wire.asked.count("write") == server.FRAMES_WAITING_MAX
    assert "resume" in wire.asked
    connection.connection_lost(None)


async def test_a_peer_of_a_few_large_requests_is_not_read_on_either(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HELD_BYTES_MAX", 1_000)
    connection, wire = await connected(broker, Peers(2))
    received(connection, struct.pack(">i", 600) + bytes(600))
    assert wire.asked == []
    received(connection, struct.pack(">i", 600) + bytes(600))
    assert wire.asked == ["pause"]
    connection.connection_lost(None)


async def test_who_needs_more_than_its_share_when_all_is_used_up_is_let_go(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREAD_BYTES_MAX", 100_000)
    peers = Peers(9)
    made = [await connected(broker, peers) for _ in range(3)]
    large = struct.pack(">i", 1_000_000) + bytes(70_000)
    received(made[0][0], large)
    received(made[1][0], large)
    received(made[2][0], struct.pack(">i", 1_000) + bytes(100))
    assert [wire.asked for _, wire in made] == [[], ["abort"], []]
    for connection, _ in made:
        connection.connection_lost(None)
    assert peers.unread_bytes == 0


def test_a_request_without_records_has_a_size() -> None:
    frame = memoryview(bytearray(BODY_BYTES_MAX + 1))
    with pytest.raises(BadInputError, match="carries no records"):
        read_body(Request(3, 0, 7, "", frame, 0))


def test_a_group_has_only_so_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MEMBERS_MAX", 2)
    table = Table()
    ids = [table.join(), table.join(required=True), table.join()]
    assert table.joined[ids[2]]["error_code"] is ErrorCode.group_max_size_reached
    assert len(table.group.members) == 1


def test_one_answer_to_a_fetch_has_a_size(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "ANSWER_BYTES_MAX", 500)
    topic = broker.create_topic("t", 3, {})
    for partition in topic.partitions:
        for _ in range(10):
            partition.append(make_values(5), 5)
    wanted = [
        SimpleNamespace(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(3)
    ]
    asked = SimpleNamespace(
        topics=[SimpleNamespace(topic="t", partitions=wanted)], max_bytes=1 << 30
    )
    _, size, _ = fetch.collect(broker, asked)
    one_batch = len(make_values(5))
    assert 0 < size <= 500 + one_batch
    assert size < 10 * one_batch


@pytest.mark.parametrize("size", [commits.NOTE_BYTES_MAX, commits.NOTE_BYTES_MAX + 1])
async def test_a_note_beside_an_offset_has_a_size(broker: Broker, size: int) -> None:
    broker.create_topic("t", 1, {})
    part = SimpleNamespace(partition_index=0, committed_offset=1, committed_metadata="x" * size)
    code = commits._refusal(Context(broker, 2, "c", "h"), "t", part)
    assert (code is ErrorCode.none) == (size <= commits.NOTE_BYTES_MAX)


def test_a_batch_has_only_so_many_records() -> None:
    assert admit(make_dense(RECORDS_MAX), 1 << 20).record_count == RECORDS_MAX
    with pytest.raises(RejectedBatchError) as caught:
        admit(make_dense(RECORDS_MAX + 1), 1 << 20)
    assert caught.value.code is ErrorCode.invalid_record


def test_a_batch_has_no_more_records_than_its_bytes_can_hold() -> None:
    assert admit(make_dense(100, codec=NONE), 1 << 20).record_count == 100
    with pytest.raises(RejectedBatchError) as caught:
        admit(make_dense(100, codec=NONE, bytes_unpacked=699), 1 << 20)
    assert caught.value.code is ErrorCode.invalid_record


def test_a_key_takes_only_so_many_bytes_of_a_pass_of_compaction() -> None:
    short, long = b"k" * KEY_BYTES_MAX, [b"k" * KEY_BYTES_MAX + tail for tail in (b"a", b"b" * 999)]
    assert map_key(short) == short
    assert len({*map(map_key, long)}) == 2
    assert {len(map_key(key)) for key in long} == {32}


async def test_a_pass_of_compaction_remembers_only_so_many_keys_and_covers_what_it_has_seen(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "KEYS_MAX", 10)
    topic = broker.create_topic("t", 1, {"cleanup.policy": "compact"})
    partition = topic.partitions[0]
    for number in range(5):
        partition.append(make_batch([(b"%d-%d" % (number, k), b"v") for k in range(6)]), 5)
        partition.roll(5)
    sources = [
        Source(one, one.size, cleaned=False, horizons_ms={})
        for one in partition.segments
        if one.size
    ]
    newest, covered = newest_offsets(sources)
    assert (len(newest), len(covered)) == (12, 2)


def test_an_index_of_a_segment_has_only_so_many_entries_and_still_finds_everything() -> None:
    """The truth is the list of all batches."""
    rng = random.Random(3)
    index, batches, position, offset, newest_ms = SparseIndex(), [(0, 0, -1)], 0, 0, -1
    for _ in range(5 * ENTRIES_MAX):
        index.note(*batches[-1])
        assert len(index.positions) <= ENTRIES_MAX
        position += rng.randrange(INTERVAL_BYTES // 2, 2 * INTERVAL_BYTES)
        offset += rng.randrange(1, 5)
        newest_ms = max(newest_ms, offset + rng.randrange(20))
        batches.append((offset, position, newest_ms))
    loaded = SparseIndex.from_columns(index.columns())
    offsets, positions, before_ms = (list(column) for column in zip(*batches[:-1], strict=True))
    base_at = dict(zip(positions, offsets, strict=True))
    # Twice the interval that leaves so many, and one batch.
    farthest = 2 * 2 * position // ENTRIES_MAX + 2 * INTERVAL_BYTES
    for found in (index, loaded):
        for _ in range(2_000):
            wanted = rng.randrange(offset)
            truth = positions[bisect_right(offsets, wanted) - 1]
            assert truth - farthest <= found.position_of_offset(wanted) <= truth
            at = bisect_left(before_ms, wanted) - 1
            truth = positions[at] if at >= 0 else 0
            assert truth - farthest <= found.position_of_timestamp(wanted) <= truth
            start, base = found.last_start_until(truth)
            assert base_at[start] == base
    for _ in range(ENTRIES_MAX):
        position += 2 * INTERVAL_BYTES
        loaded.note(offset, position, newest_ms)
        assert len(loaded.positions) <= ENTRIES_MAX


def test_an_index_that_was_stored_with_more_entries_is_held_with_fewer() -> None:
    many = range(3 * ENTRIES_MAX)
    stored = struct.pack(f"={len(many)}q", *many)
    loaded = SparseIndex.from_columns((stored, stored, stored))
    assert len(loaded.offsets) <= ENTRIES_MAX
    assert 0 <= 100_000 % len(many) - loaded.position_of_offset(100_000 % len(many)) < 4


def indexes_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, SparseIndex) for one in gc.get_objects())


async def roll_often(broker: Broker) -> list[Segment]:
    """More closed segments than indexes may be held; their sidecars are in place."""
    partition = broker.create_topic("t", 1, {"segment.bytes": "14"}).partitions[0]
    for _ in range(INDEXES_MAX + 40):
        partition.append(make_values(2), 5)
    await asyncio.to_thread(broker.flusher._thread.submit(time.monotonic).result)
    await broker.flusher.vouch()
    return partition.segments


async def test_only_so_many_indexes_of_closed_segments_are_held_however_many_are_read(
    broker: Broker,
) -> None:
    shelved_index.cache_clear()
    before = indexes_in_memory()
    segments = await roll_often(broker)
    assert len(segments) > INDEXES_MAX + 30
    assert indexes_in_memory() - before < 5
    partition = broker.topics["t"].partitions[0]
    for _ in range(2):
        assert read_all(partition) == list(range(partition.end_offset))
        assert indexes_in_memory() - before <= INDEXES_MAX + 1


async def test_neither_a_start_nor_a_compaction_holds_more(tmp_path: Path) -> None:
    shelved_index.cache_clear()
    before = indexes_in_memory()
    written = open_partition(tmp_path, segment_bytes="14", cleanup_policy="compact")
    for number in range(INDEXES_MAX + 40):
        written.append(make_batch([(b"%d" % number, b"v")]), 5)
    written.close()
    del written
    partition = open_partition(tmp_path, segment_bytes="14", cleanup_policy="compact")
    assert indexes_in_memory() - before < 5
    cleaner = Cleaner(HandClock())
    await cleaner.clean(partition)
    cleaner.stop()
    assert all(segment.cleaned for segment in partition.segments[:-1])
    assert indexes_in_memory() - before < 5
    assert read_all(partition) == list(range(partition.end_offset))
    assert indexes_in_memory() - before <= INDEXES_MAX + 1
    partition.close()


@pytest.mark.parametrize("spoilt", [None, b"torn"])
def test_a_closed_segment_whose_sidecar_is_spoilt_is_read_for_its_index(
    tmp_path: Path, spoilt: bytes | None
) -> None:
    written = open_partition(tmp_path)
    for _ in range(200):
        written.append(make_batch([(None, b"x" * 2000)]), 5)
    expected = written.active.index.columns()
    written.roll(5)
    written.append(make_values(1), 5)
    written.close()
    partition = open_partition(tmp_path)
    closed = partition.segments[0]
    if spoilt is None:
        closed.sidecar_path.unlink()
    else:
        closed.sidecar_path.write_bytes(spoilt)
    assert closed.index.columns() == expected
    assert read_all(partition, max_bytes=50_000) == list(range(201))
    partition.close()
