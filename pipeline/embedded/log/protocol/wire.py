"""Frames and entities: request headers by hand, bodies by kio, answers from dictionaries."""

import dataclasses
import io
import struct
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from pipeline.embedded.log.protocol.bounds import check, shapes_of, skip_tags
from pipeline.errors import BadInputError

_HEADER = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
API_VERSIONS_KEY = 18
# Only Produce carries records; whatever else there is to ask fits into this.
BODY_BYTES_MAX = 8 * 1024 * 1024


class Request(NamedTuple):
    """A request whose body is still bytes, from `body_at` on in the frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    frame: memoryview
    body_at: int


def read_header(frame: memoryview, flexible_from: dict[int, int]) -> Request:
    """Raises BadInputError for a frame that cannot be a request."""
    try:
        api_key, version, correlation_id, client_size = _HEADER.unpack_from(frame)
        at = _HEADER.size
        client_id = ""
        if client_size >= 0:
            client_id = str(frame[at : at + client_size], "utf-8", "replace")
            at += client_size
        if version >= flexible_from.get(api_key, 1 << 15):
            at = skip_tags(frame, at)
    except (struct.error, IndexError):
        raise BadInputError("a frame that is no request") from None
    if at > len(frame):
        raise BadInputError("a frame that ends inside its header")
    return Request(api_key, version, correlation_id, client_id, frame, at)


def read_body(request: Request) -> Any:
    """The body as the kio entity of its version; raises BadInputError when it does not parse."""
    if len(request.frame) > BODY_BYTES_MAX:
        raise BadInputError(f"a request of {len(request.frame)} bytes that carries no records")
    schema = load_request_schema(request.api_key, request.version)
    check(schema, request.frame, request.body_at)
    try:
        entity, _ = entity_reader(schema)(request.frame.toreadonly(), request.body_at)
    except Exception as error:
        # kio raises errors of its own, ValueError and UnicodeDecodeError: all mean malformed bytes.
        raise BadInputError(f"a malformed request: {error}") from error
    return entity


def write_answer(api_key: int, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    """A response, without its length. Fields that the version does not have are left out."""
    schema = load_response_schema(api_key, version)
    buffer = io.BytesIO()
    buffer.write(_CORRELATION.pack(correlation_id))
    # ApiVersions has the old header always: a client reads it before it knows what we speak.
    if schema.__flexible__ and api_key != API_VERSIONS_KEY:
        buffer.write(b"\x00")
    entity_writer(schema)(buffer, build(schema, body))
    return buffer.getvalue()


@cache
def _plan(entity_type: Any) -> list[tuple[str, str, Any, bool]]:
    """Per field: its name, how its value is made, its entity, and whether it has a default."""
    defaults = {f.name: f.default for f in dataclasses.fields(entity_type)}
    plan = []
    for shape in shapes_of(entity_type):
        if shape.entity is not None:
            kind = "entities" if shape.is_array else "entity"
        else:
            kind = "array" if shape.is_array else shape.kafka_type
        has_default = defaults[shape.name] is not dataclasses.MISSING
        plan.append((shape.name, kind, shape.entity, has_default))
    return plan


def build(entity_type: Any, values: dict[str, Any]) -> Any:
    """A kio entity from a dictionary: milliseconds become durations, lists become tuples."""
    arguments: dict[str, Any] = {}
    for name, kind, nested, has_default in _plan(entity_type):
        if name not in values:
            if not has_default:
                arguments[name] = _IMPLIED[kind]
            continue
        value = values[name]
        if value is None:
            arguments[name] = None
        elif kind == "entities":
            arguments[name] = tuple(build(nested, item) for item in value)
        elif kind == "array":
            arguments[name] = tuple(value)
        elif kind.startswith("timedelta"):
            arguments[name] = timedelta(milliseconds=value)
        elif kind == "entity":
            arguments[name] = build(nested, value)
        else:
            arguments[name] = value
    return entity_type(**arguments)


# What a field means that an answer does not mention and the protocol gives no default for.
_IMPLIED: dict[str, Any] = {
    "timedelta_i32": timedelta(0),
    "error_code": ErrorCode.none,
    "entities": (),
    "array": (),
    "string": "",
    "bytes": b"",
    "int32": -1,
    "int64": -1,
    "int16": 0,
    "int8": 0,
    "bool": False,
}
