"""The event: one increment as producers write it. This model is the definition; decoders agree.

Decided here, for every reader of events:

- JSON has one kind of number, so `1.0` and `1e3` are whole numbers (read as IEEE doubles, which are
  exact up to the limit); `1.5`, NaN, booleans and numbers in quotes are not.
- `null` is the same as leaving the field out. Of a key that occurs twice, the last one counts.
- Limits are in bytes of UTF-8. NUL characters and halves of surrogate pairs are refused.
- An empty `member` or `id` is refused, since it is nearly always a bug in the producer that would
  count all its users as one; an empty `region` means unknown. A counter has a family and a key,
  and neither is empty.
- `at` lies between 1970 and 2106, the range of ClickHouse's DateTime. RFC 3339 text needs its
  offset; parts of a millisecond are cut off; a leap second is refused, for it has no place in
  milliseconds since 1970.
- JSON nested deeper than 200 levels, even in an ignored field, is refused.
"""

from typing import Annotated, Any, NoReturn

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, from_json

from pipeline.errors import BadInputError
from schemas.times import AT_MAX_MS, AT_MIN_MS, parse_rfc3339_ms

COUNTER_MAX_BYTES = 256
MEMBER_MAX_BYTES = 256
REGION_MAX_BYTES = 32
ID_MAX_BYTES = 128
DELTA_MAX = 2**40
DELTA_DEFAULT = 1
REGION_DEFAULT = ""
ALL_REGIONS = "*"

AT_REASON = "not a time; give milliseconds since 1970 or RFC 3339 text"


def _refuse(reason: str) -> NoReturn:
    # Braces would be read as placeholders; no reason contains any.
    raise PydanticCustomError("refused", reason)


def _text(value: object, max_bytes: int) -> str:
    if not isinstance(value, str):
        _refuse("not text")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        _refuse("not valid Unicode; half of a surrogate pair")
    if length > max_bytes:
        _refuse(f"longer than {max_bytes} bytes")
    if "\0" in value:
        _refuse("contains a NUL character")
    return value


def _whole_number(value: object, reason: str) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(reason)
    return value


def _counter(value: object) -> str:
    if value is None:
        _refuse("missing")
    text = _text(value, COUNTER_MAX_BYTES)
    if not text:
        _refuse("empty")
    family, colon, key = text.partition(":")
    if not family or not colon:
        _refuse("has no family; write family:key")
    if not key:
        _refuse("has no key; write family:key")
    return text


def _delta(value: object) -> int:
    if value is None:
        return DELTA_DEFAULT
    number = _whole_number(value, "not a whole number")
    if number == 0:
        _refuse("0 is not allowed")
    if abs(number) > DELTA_MAX:
        _refuse("beyond 2^40")
    return number


def _at(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        at_ms = parse_rfc3339_ms(value)
        if at_ms is None:
            _refuse(AT_REASON)
    else:
        at_ms = _whole_number(value, AT_REASON)
    if not AT_MIN_MS <= at_ms <= AT_MAX_MS:
        _refuse("outside the years 1970 to 2106")
    return at_ms


def _optional_text(value: object, max_bytes: int) -> str | None:
    if value is None:
        return None
    text = _text(value, max_bytes)
    if not text:
        _refuse("empty; leave it out instead")
    return text


def _member(value: object) -> str | None:
    return _optional_text(value, MEMBER_MAX_BYTES)


def _id(value: object) -> str | None:
    return _optional_text(value, ID_MAX_BYTES)


def _region(value: object) -> str:
    if value is None:
        return REGION_DEFAULT
    text = _text(value, REGION_MAX_BYTES)
    if text == ALL_REGIONS:
        _refuse("'*' means all regions and is only for queries")
    return text


def _nullable(**schema: object) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [schema, {"type": "null"}]})


def _required_id(value: object) -> str:
    if value is None:
        _refuse("missing")
    text = _text(value, ID_MAX_BYTES)
    if not text:
        _refuse("empty")
    return text


def whole_number(value: object, low: int, high: int) -> int:
    """A number as JSON writes it, within bounds, for validators. Refuses with a reason."""
    number = _whole_number(value, "not a whole number")
    if not low <= number <= high:
        _refuse(f"not from {low} to {high}")
    return number


RequiredId = Annotated[
    str,
    BeforeValidator(_required_id),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": ID_MAX_BYTES}),
]
"""An id that may not be left out."""

CounterName = Annotated[
    str,
    BeforeValidator(_counter),
    WithJsonSchema({"type": "string", "maxLength": COUNTER_MAX_BYTES, "pattern": "^[^:]+:."}),
]
"""A counter's name, checked as every record has it."""


class Event(BaseModel):
    """One increment. Unknown fields are ignored; anything else wrong raises ValidationError.

    `reason_of` turns that error into the dead letter's reason.
    """

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        title="Tally event",
        json_schema_extra={"description": "One increment. Unknown fields are ignored."},
    )

    counter: CounterName = Field(
        description="What is counted: family:key, at most 256 bytes; the family has no ':'.",
    )
    delta: Annotated[
        int,
        BeforeValidator(_delta),
        _nullable(type="integer", minimum=-DELTA_MAX, maximum=DELTA_MAX, **{"not": {"const": 0}}),
    ] = Field(default=DELTA_DEFAULT, description="How much: a whole number, not 0.")
    at: Annotated[
        int | None,
        BeforeValidator(_at),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": AT_MIN_MS, "maximum": AT_MAX_MS},
                    {"type": "string", "format": "date-time"},
                    {"type": "null"},
                ]
            }
        ),
    ] = Field(
        default=None,
        description="When it happened: ms since 1970 or RFC 3339 text; left out, the log's time.",
    )
    member: Annotated[
        str | None,
        BeforeValidator(_member),
        _nullable(type="string", minLength=1, maxLength=MEMBER_MAX_BYTES),
    ] = Field(default=None, description="Who did it, for distinct counts; at most 256 bytes.")
    region: Annotated[
        str,
        BeforeValidator(_region),
        _nullable(type="string", maxLength=REGION_MAX_BYTES, **{"not": {"const": ALL_REGIONS}}),
    ] = Field(default=REGION_DEFAULT, description="Where; at most 32 bytes, empty is unknown.")
    id: Annotated[
        str | None,
        BeforeValidator(_id),
        _nullable(type="string", minLength=1, maxLength=ID_MAX_BYTES),
    ] = Field(
        default=None,
        description="The same id is counted once within the family's horizon; at most 128 bytes.",
    )


FIELDS = tuple(Event.model_fields)


def reason_of(error: ValidationError, fields: tuple[str, ...] = FIELDS) -> str:
    """Why an event was refused: `field: reason`, in the fields' order with `; ` between."""
    problems = {str(problem["loc"][0]): problem for problem in error.errors() if problem["loc"]}
    reasons = [
        f"{name}: {'missing' if problems[name]['type'] == 'missing' else problems[name]['msg']}"
        for name in fields
        if name in problems
    ]
    return "; ".join(reasons) or "not a JSON object"


def read_event(data: bytes) -> Event:
    """The event in one JSON text. Raises BadInputError; the reason never repeats the input."""
    return check_event(read_json(data))


def read_json(data: bytes) -> object:
    """What one JSON text says. Raises BadInputError; the reason never repeats the input."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise BadInputError(_why_not_json(data, str(error))) from None


def check_event(document: object) -> Event:
    """The event in one JSON document already parsed. Raises BadInputError with the reason."""
    if not isinstance(document, dict):
        raise BadInputError("not a JSON object")
    try:
        return Event.model_validate(document)
    except ValidationError as error:
        raise BadInputError(reason_of(error)) from None


def _why_not_json(data: bytes, message: str) -> str:
    if not data.strip():
        return "empty; give a JSON object"
    if data.startswith(b"\xef\xbb\xbf"):
        return "not JSON; it starts with a byte order mark"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "not UTF-8 text"
    if "recursion limit" in message:
        return "nested deeper than 200 levels"
    if "trailing characters" in message:
        return "more than one JSON value; give one object per record"
    return "not JSON"


def event_json_schema() -> dict[str, Any]:
    """JSON Schema of an event as producers write it.

    It cannot say bytes: maxLength counts characters, so text beyond ASCII may pass the schema and
    still be longer than the limit.
    """
    schema = Event.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
