import io
import random
import struct
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from pipeline.embedded.log.handlers.apis import APIS
from pipeline.embedded.log.protocol import produce, wire
from pipeline.embedded.log.protocol.bounds import check, shapes_of
from pipeline.errors import BadInputError

SYNC_GROUP = 14
METADATA = 3
VERSIONS = [
    (key, version)
    for key, api in APIS.items()
    for version in range(
        max(api.version_min, produce.VERSION_MIN if key == 0 else 0), api.version_max + 1
    )
]


def random_values(rng: random.Random, entity_type: Any) -> dict[str, Any]:
    """Values for every field of a request, so that all of its shapes are sent."""
    values: dict[str, Any] = {}
    for shape in shapes_of(entity_type):
        count = rng.randrange(3) if shape.is_array else 1
        if shape.entity is not None:
            items: list[Any] = [random_values(rng, shape.entity) for _ in range(count)]
        else:
            items = [_random_value(rng, shape.kafka_type) for _ in range(count)]
        values[shape.name] = items if shape.is_array else items[0]
        if shape.is_nullable and rng.random() < 0.2:
            values[shape.name] = None
    return values


def _random_value(rng: random.Random, kafka_type: str) -> Any:
    if kafka_type == "string":
        return "x" * rng.randrange(5)
    if kafka_type in {"bytes", "records"}:
        return rng.randbytes(rng.randrange(5))
    if kafka_type == "bool":
        return True
    return None if kafka_type == "uuid" else rng.randrange(100)


def written(entity_type: Any, values: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, wire.build(entity_type, values))
    return buffer.getvalue()


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_no_announced_request_hides_a_list_in_a_tag(key: int, version: int) -> None:
    """Tagged fields are passed over by their size, so nothing in them may make room for much."""
    pending = [load_request_schema(key, version)]
    while pending:
        for shape in shapes_of(pending.pop()):
            assert not (shape.is_tagged and (shape.is_array or shape.entity))
            if shape.entity is not None:
                pending.append(shape.entity)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_request_that_kio_writes_is_let_through_and_cut_ones_are_not(
    key: int, version: int
) -> None:
    print(f"seed {key * 100 + version}")
    rng = random.Random(key * 100 + version)
    schema = load_request_schema(key, version)
    for _ in range(5):
        data = b"head" + written(schema, random_values(rng, schema))
        check(schema, memoryview(data), 4)
        entity_reader(schema)(data, 4)
        if len(data) > 4:
            with pytest.raises(BadInputError):
                check(schema, memoryview(data[:-1]), 4)


@pytest.mark.parametrize("count", [5, 2**31 - 1, -2, -(2**31)])
def test_a_list_longer_than_its_request_is_refused(count: int) -> None:
    schema = load_request_schema(METADATA, 8)
    with pytest.raises(BadInputError):
        check(schema, memoryview(struct.pack(">i", count)), 0)


@pytest.mark.parametrize("count", [b"\x09", b"\xff\xff\xff\xff\x0f", b"\xff" * 9])
def test_a_compact_list_longer_than_its_request_is_refused(count: bytes) -> None:
    schema = load_request_schema(SYNC_GROUP, 4)
    head = written(schema, {"group_id": "g", "generation_id": 1, "member_id": "m"})[:-2]
    with pytest.raises(BadInputError):
        check(schema, memoryview(head + count), 0)


def test_a_list_that_must_be_there_cannot_be_null() -> None:
    schema = load_request_schema(METADATA, 0)
    with pytest.raises(BadInputError, match="topics"):
        check(schema, memoryview(struct.pack(">i", -1)), 0)
    check(load_request_schema(METADATA, 1), memoryview(struct.pack(">i", -1)), 0)
