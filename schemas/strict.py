"""The command: one question to a strict counter, as `tally.strict` has it. This is the definition.

Everything that decides it is in the record, or in the records of its counter before it: floor,
limit and window, and how many ids are remembered. So the log alone decides, whoever reads it and
whatever the rules say by then. Numbers, texts and `null` are read as in schemas/events.py; fields
that are not known are ignored.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pipeline.errors import BadInputError
from schemas.events import CounterName, RequiredId, read_json, reason_of, whole_number
from schemas.rules import STRICT_IDS_KEPT, STRICT_IDS_MAX, STRICT_IDS_MIN

Op = Literal["increment", "decrement", "acquire"]

AMOUNT_MAX = 2**40
WINDOW_MS_MAX = 366 * 86_400_000
IDS_HORIZON_MS = 86_400_000
IDS_HORIZON_MS_MAX = 36_500 * 86_400_000


def _number(low: int, high: int, default: int | None) -> Any:
    """A whole number within bounds; left out, it is the default."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return (
        BeforeValidator(_reader(low, high, default)),
        WithJsonSchema({"anyOf": [schema, {"type": "null"}]}),
    )


def _reader(low: int, high: int, default: int | None) -> Callable[[object], int | None]:
    def read(value: object) -> int | None:
        return default if value is None else whole_number(value, low, high)

    return read


def _one_of(words: tuple[str, ...], default: str | None) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value is None and default is not None:
            return default
        if value not in words:
            raise PydanticCustomError("refused", f"not one of {', '.join(words)}")
        return str(value)

    return read


class Command(BaseModel):
    """One command. Anything wrong raises ValidationError; `read_command` tells it in one line."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        title="Tally strict command",
        json_schema_extra={
            "description": "One command to a strict counter. Unknown fields are ignored."
        },
    )

    id: RequiredId = Field(
        description="At most 128 bytes. The same id gets the same answer, within the horizon."
    )
    counter: CounterName = Field(description="family:key, at most 256 bytes.")
    op: Annotated[
        Op,
        BeforeValidator(_one_of(("increment", "decrement", "acquire"), None)),
    ] = Field(
        description="increment adds; decrement takes away, down to the floor; acquire adds while "
        "no more than the limit is granted in a window."
    )
    amount: Annotated[int, *_number(1, AMOUNT_MAX, 1)] = Field(
        default=1, description="How much: all of it is granted, or nothing."
    )
    floor: Annotated[int, *_number(-AMOUNT_MAX, AMOUNT_MAX, 0)] = Field(
        default=0, description="decrement: the value never goes below it."
    )
    limit: Annotated[int | None, *_number(1, AMOUNT_MAX, None)] = Field(
        default=None, description="acquire: how much may be granted in any window."
    )
    window_ms: Annotated[int | None, *_number(1, WINDOW_MS_MAX, None)] = Field(
        default=None, description="acquire: how long the window is, by the log's time."
    )
    window: Annotated[
        Literal["fixed", "sliding"],
        BeforeValidator(_one_of(("fixed", "sliding"), "fixed")),
    ] = Field(
        default="fixed",
        description="acquire: windows one after the other since 1970, or the time just before.",
    )
    ids_kept: Annotated[int, *_number(STRICT_IDS_MIN, STRICT_IDS_MAX, STRICT_IDS_KEPT)] = Field(
        default=STRICT_IDS_KEPT, description="So many ids the counter remembers, the last ones."
    )
    ids_horizon_ms: Annotated[int, *_number(1, IDS_HORIZON_MS_MAX, IDS_HORIZON_MS)] = Field(
        default=IDS_HORIZON_MS, description="And none longer than this, by the log's time."
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.op == "acquire" and (self.limit is None or self.window_ms is None):
            raise PydanticCustomError("refused", "acquire needs limit and window_ms")
        return self

    def record(self) -> bytes:
        """As the log has it; what an operation does not need is left out."""
        needless = {
            "increment": {"floor", "limit", "window_ms", "window"},
            "decrement": {"limit", "window_ms", "window"},
            "acquire": {"floor"},
        }
        return self.model_dump_json(exclude=needless[self.op]).encode()


FIELDS = tuple(Command.model_fields)


def read_command(data: bytes | None) -> Command:
    """The command in one record's value. Raises BadInputError; it never repeats the input."""
    return check_command(read_json(data or b""))


def check_command(document: object) -> Command:
    """The command in one JSON document already parsed. Raises BadInputError with the reason."""
    if not isinstance(document, dict):
        raise BadInputError("not a JSON object")
    try:
        return Command.model_validate(document)
    except ValidationError as error:
        whole = [problem["msg"] for problem in error.errors() if not problem["loc"]]
        raise BadInputError(whole[0] if whole else reason_of(error, FIELDS)) from None


def command_json_schema() -> dict[str, Any]:
    """JSON Schema of a command as producers write it; see `event_json_schema` for its limits."""
    schema = Command.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
