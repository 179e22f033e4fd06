import struct
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v5.response import JoinGroupResponse
from kio.serial import entity_reader

from pipeline.embedded.log.handlers.apis import APIS, NEVER
from pipeline.embedded.log.protocol import fetch, produce, wire
from pipeline.errors import BadInputError

FLEXIBLE = {key: api.flexible_from for key, api in APIS.items()}


def frame_of(key: int, version: int, body: bytes, tags: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">hhih", key, version, 77, 3) + b"cli" + tags + body)


def read_whole(key: int, version: int, data: bytes) -> Any:
    """An answer as kio reads it; every byte must be used."""
    read, size = entity_reader(load_response_schema(key, version))(data, 4)
    assert size == len(data) - 4
    return read


@pytest.mark.parametrize("key", list(APIS))
def test_the_table_knows_which_versions_are_flexible(key: int) -> None:
    api = APIS[key]
    first = produce.VERSION_MIN if key == 0 else api.version_min
    schemas = {v: load_request_schema(key, v) for v in range(first, api.version_max + 1)}
    flexible = [version for version, schema in schemas.items() if schema.__flexible__]
    assert min(flexible, default=NEVER) == api.flexible_from


def test_a_header_is_read_with_and_without_tags() -> None:
    plain = wire.read_header(frame_of(3, 8, b"body"), FLEXIBLE)
    tags = b"\x01\x05\x02xy"
    tagged = wire.read_header(frame_of(14, 4, b"body", tags), FLEXIBLE)
    for request in (plain, tagged):
        assert (request.correlation_id, request.client_id) == (77, "cli")
        assert bytes(request.frame[request.body_at :]) == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00" * 9,
        struct.pack(">hhih", 3, 8, 1, 500),
        struct.pack(">hhih", 14, 4, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 14, 4, 1, -1) + b"\x01\x00\x7f",
    ],
)
def test_a_frame_that_is_no_request_is_refused(frame: bytes) -> None:
    with pytest.raises(BadInputError):
        wire.read_header(memoryview(frame), FLEXIBLE)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x05"])
def test_a_body_that_promises_too_much_is_refused(count: bytes) -> None:
    request = wire.read_header(frame_of(3, 1, count), FLEXIBLE)
    with pytest.raises(BadInputError):
        wire.read_body(request)


def test_an_answer_is_what_kio_reads_back() -> None:
    body = {
        "error_code": ErrorCode.none,
        "generation_id": 4,
        "protocol_name": "range",
        "leader": "a",
        "member_id": "a",
        "members": [{"member_id": "a", "group_instance_id": None, "metadata": b"m"}],
        "field of another version": 1,
    }
    data = wire.write_answer(11, 5, 77, body)
    assert data[:4] == struct.pack(">i", 77)
    read, _ = entity_reader(JoinGroupResponse)(data, 4)
    assert (read.generation_id, read.members[0].metadata) == (4, b"m")


def test_records_of_a_produce_request_are_views_of_the_frame() -> None:
    body = (
        struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 6, 5) + b"batch"
    )
    frame = memoryview(bytearray(body))
    request = produce.read_request(frame, 0)
    (part,) = request.parts
    assert (request.transactional_id, request.acks) == (None, -1)
    assert (part.topic, part.partition) == ("t", 6)
    assert part.records is not None
    part.records[0] = ord("B")
    assert bytes(frame).endswith(b"Batch")


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_a_produce_request_that_ends_early_is_refused(cut: int) -> None:
    body = (
        struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 6, 5) + b"batch"
    )
    with pytest.raises(BadInputError):
        produce.read_request(memoryview(bytearray(body[:-cut])), 0)


@pytest.mark.parametrize("version", range(produce.VERSION_MIN, produce.VERSION_MAX + 1))
def test_produce_answers_are_read_back_by_kio(version: int) -> None:
    results = [
        produce.PartitionResult("t", 0, ErrorCode.none, 5, 1000, 2),
        produce.PartitionResult("t", 1, ErrorCode.message_too_large, message="no"),
        produce.PartitionResult("u", 0, ErrorCode.none, 6),
    ]
    data = produce.write_answer(version, 9, results)
    read = read_whole(0, version, data)
    answers = [
        (t.name, p.index, p.error_code) for t in read.responses for p in t.partition_responses
    ]
    assert answers == [
        ("t", 0, ErrorCode.none),
        ("t", 1, ErrorCode.message_too_large),
        ("u", 0, ErrorCode.none),
    ]


@pytest.mark.parametrize("version", range(fetch.VERSION_MIN, fetch.VERSION_MAX + 1))
def test_fetch_answers_are_read_back_by_kio(version: int) -> None:
    parts = [
        fetch.PartitionData(0, ErrorCode.none, 9, 3, b"records"),
        fetch.PartitionData(1, ErrorCode.offset_out_of_range),
    ]
    data = b"".join(fetch.write_answer(version, 9, [("t", parts)]))
    read = read_whole(1, version, data)
    first, second = read.responses[0].partitions
    assert (first.high_watermark, bytes(first.records)) == (9, b"records")
    assert second.error_code is ErrorCode.offset_out_of_range
