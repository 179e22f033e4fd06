"""Checks that a request holds what it promises, before kio reads it.

kio's compiled reader makes room for as many items as an array claims to have, and a claim of two
thousand million ends the process. So every length is compared with the bytes that are there first.
Each item is answered, too, by some hundred bytes and as many microseconds of everybody's time: so
there is a bound on how many a request may name.
"""

import dataclasses
import struct
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from pipeline.errors import BadInputError

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_FIXED_BYTES = {
    "int8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
UVARINT_BYTES_MAX = 5

ITEMS_MAX = 25_000
"""Of all lists of a request together: a node has 10 000 partitions at most, in as many topics."""


class _Budget:
    """How many items a request may still have."""

    def __init__(self) -> None:
        self.left = ITEMS_MAX

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise BadInputError(f"a request that names more than {ITEMS_MAX} things")


class Shape(NamedTuple):
    """A field: an array or not, of entities or plain values, each of `fixed_bytes` or its own."""

    name: str
    kafka_type: str
    is_array: bool
    is_nullable: bool
    entity: Any
    fixed_bytes: int | None
    is_tagged: bool


@cache
def shapes_of(entity_type: Any) -> tuple[Shape, ...]:
    """The fields of a kio entity, in the order in which they are sent."""
    return tuple(_shape(entity_type, field) for field in dataclasses.fields(entity_type))


def _shape(entity_type: Any, field: Any) -> Shape:
    annotation = field.type
    is_nullable = get_origin(annotation) is UnionType
    if is_nullable:
        annotation = next(a for a in get_args(annotation) if a is not NoneType)
    is_array = get_origin(annotation) is tuple
    inner = get_args(annotation)[0] if is_array else annotation
    entity: Any = inner if dataclasses.is_dataclass(inner) else None
    kafka_type = field.metadata.get("kafka_type", "")
    fixed_bytes = _FIXED_BYTES.get(kafka_type)
    if entity is not None and not entity_type.__flexible__:
        sizes = [None if s.is_array else s.fixed_bytes for s in shapes_of(entity)]
        known = [size for size in sizes if size is not None]
        fixed_bytes = sum(known) if len(known) == len(sizes) else None
    return Shape(
        field.name, kafka_type, is_array, is_nullable, entity, fixed_bytes, "tag" in field.metadata
    )


def check(entity_type: Any, frame: memoryview, at: int) -> None:
    """Raises BadInputError when the entity at `at` claims more than the frame holds."""
    try:
        end = _skip_entity(entity_type, frame, at, _Budget())
    except (struct.error, IndexError):
        raise BadInputError("a request that ends too early") from None
    if end > len(frame):
        raise BadInputError("a request that claims more than it holds")


def _skip_entity(entity_type: Any, frame: memoryview, at: int, budget: _Budget) -> int:
    is_flexible = entity_type.__flexible__
    for shape in shapes_of(entity_type):
        if not shape.is_tagged:
            at = _skip_field(shape, frame, at, budget, is_flexible=is_flexible)
    return skip_tags(frame, at) if is_flexible else at


def _skip_field(
    shape: Shape, frame: memoryview, at: int, budget: _Budget, *, is_flexible: bool
) -> int:
    if not shape.is_array:
        if shape.entity is not None and shape.is_nullable:
            if frame[at] == 255:
                return at + 1
            return _skip_entity(shape.entity, frame, at + 1, budget)
        return _skip_item(shape, frame, at, budget, is_flexible=is_flexible)
    count, at = _length(frame, at, is_flexible=is_flexible, legacy=_I32)
    if count < 0:
        if not shape.is_nullable:
            raise BadInputError(f"no {shape.name}, where there must be a list")
        return at
    if count * (shape.fixed_bytes or 1) > len(frame) - at:
        raise BadInputError(f"a list of {count} items in a request of {len(frame)} bytes")
    budget.take(count)
    if shape.fixed_bytes is not None:
        return at + count * shape.fixed_bytes
    for _ in range(count):
        at = _skip_item(shape, frame, at, budget, is_flexible=is_flexible)
    return at


def _skip_item(
    shape: Shape, frame: memoryview, at: int, budget: _Budget, *, is_flexible: bool
) -> int:
    if shape.fixed_bytes is not None:
        return at + shape.fixed_bytes
    if shape.entity is not None:
        return _skip_entity(shape.entity, frame, at, budget)
    legacy = _I16 if shape.kafka_type == "string" else _I32
    size, at = _length(frame, at, is_flexible=is_flexible, legacy=legacy)
    return at + max(size, 0)


def _length(
    frame: memoryview, at: int, *, is_flexible: bool, legacy: struct.Struct
) -> tuple[int, int]:
    """A length, -1 for null, and where what it measures starts."""
    if is_flexible:
        value, at = uvarint(frame, at)
        return value - 1, at
    (size,) = legacy.unpack_from(frame, at)
    if size < -1:
        raise BadInputError(f"a length of {size}")
    return int(size), at + legacy.size


def skip_tags(frame: memoryview, at: int) -> int:
    """Past the tagged fields at `at`; raises IndexError when they do not end."""
    count, at = uvarint(frame, at)
    for _ in range(count):
        _, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        at += size
    return at


def uvarint(frame: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of seven bits to the byte; raises IndexError when it does not end."""
    value = 0
    for number in range(UVARINT_BYTES_MAX):
        byte = frame[at + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at + number + 1
    raise IndexError("a number of more than 32 bits")
