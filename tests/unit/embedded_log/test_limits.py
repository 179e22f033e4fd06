"""Each bound of the embedded log is reached, and what happens there is as docs/limits.md says."""

import asyncio
import struct
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
from pipeline.embedded.log.compaction import Source, newest_offsets
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.handlers import commits, fetch
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.protocol.wire import BODY_BYTES_MAX, Request, read_body
from pipeline.embedded.log.records import has_null_key, records_of
from pipeline.embedded.log.server import Connection, Peers
from pipeline.errors import BadInputError
from tests.kit.fetch_results import batch_of
from tests.unit.embedded_log.batches import NONE, make_batch, make_dense, make_values
from tests.unit.embedded_log.test_cleaner import HandClock
from tests.unit.embedded_log.test_groups import Table


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
