"""An adjustment: one audited correction, as a record in the log and as people write it in files.

The same limits as for events, with these of its own: `by` fits 64 bits and is not 0, `grain` and
`window` are given both or not at all, a window begins where windows of its grain begin, and who
made it and why must be said. Unknown fields are refused: a misspelt `window` would otherwise
adjust the total.
"""

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json, to_json

from pipeline.errors import BadInputError
from schemas.events import (
    ID_MAX_BYTES,
    _at,
    _counter,
    _optional_text,
    _refuse,
    _region,
    _whole_number,
)
from schemas.rules import GRAIN_MS, GRAINS, Grain

ADJUSTMENT_KIND = "adjustment"
"""The value of the header `tally-kind` of an adjustment."""

ADJUSTMENT_REASON = "adjustment: "
"""What the reason of a dead letter begins with that was to be one."""

WHO_MAX_BYTES = 128
WHY_MAX_BYTES = 1_000
_NAME_CHARS_MAX = 40
_REASONS_MAX = 12
"""Of a reason: an adjustment may have any number of unknown fields, of any length."""

BY_MIN, BY_MAX = -(2**63), 2**63 - 1

Contents = tuple[int, str, str, int]
"""By how much, region, grain and start of the window: what of an adjustment decides counts."""


def _whole_64(value: object) -> int:
    number = _whole_number(value, "not a whole number")
    if not BY_MIN <= number <= BY_MAX:
        _refuse("beyond 64 bits")
    return number


def _by(value: object) -> int:
    if value is None:
        _refuse("missing")
    number = _whole_64(value)
    if number == 0:
        _refuse("0 changes nothing")
    return number


def _grain(value: object) -> Grain | None:
    for grain in GRAINS:
        if value == grain:
            return grain
    if value not in (None, ""):
        _refuse("not one of 1m, 1h, 1d")
    return None


def _said(max_bytes: int) -> BeforeValidator:
    def checked(value: object) -> str:
        text = _optional_text(value, max_bytes)
        if text is None:
            _refuse("missing")
        if not text.strip():
            _refuse("empty")
        return text

    return BeforeValidator(checked)


def _maybe(max_bytes: int) -> BeforeValidator:
    return BeforeValidator(lambda value: _optional_text(value, max_bytes))


class Draft(BaseModel):
    """What somebody wants: an adjustment without what only its maker's moment adds to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    counter: Annotated[str, BeforeValidator(_counter)]
    by: Annotated[int, BeforeValidator(_by)]
    region: Annotated[str, BeforeValidator(_region)] = ""
    grain: Annotated[Grain | None, BeforeValidator(_grain)] = None
    window: Annotated[int | None, BeforeValidator(_at)] = None
    who: Annotated[str | None, _maybe(WHO_MAX_BYTES)] = None
    why: Annotated[str | None, _maybe(WHY_MAX_BYTES)] = None
    id: Annotated[str | None, _maybe(ID_MAX_BYTES)] = None

    @model_validator(mode="after")
    def _window_of_its_grain(self) -> Self:
        if (self.grain is None) != (self.window is None):
            raise PydanticCustomError("refused", "grain, window: give both or none of them")
        if self.grain and self.window and self.window % GRAIN_MS[self.grain]:
            raise PydanticCustomError("refused", f"window: no window of {self.grain} begins there")
        return self

    @property
    def target(self) -> tuple[str, int]:
        """The grain and the beginning of the window that it is about; ("", 0) is the total."""
        return self.grain or "", self.window or 0

    @property
    def contents(self) -> Contents:
        """What of it decides counts, beside its counter."""
        return self.by, self.region, *self.target


class Adjustment(Draft):
    """An adjustment as the log has it. `before` and `after` are what its maker read, if anything.

    `at` is when it was made by its maker's clock. What it changes never depends on these.
    """

    id: Annotated[str, _said(ID_MAX_BYTES)]
    who: Annotated[str, _said(WHO_MAX_BYTES)]
    why: Annotated[str, _said(WHY_MAX_BYTES)]
    before: int | None = None
    after: int | None = None
    at: Annotated[int, BeforeValidator(_at)] = Field()

    @field_validator("before", "after", mode="before")
    @classmethod
    def _fits(cls, value: object) -> int | None:
        return None if value is None else _whole_64(value)

    def bytes(self) -> bytes:
        """As a record's value. Equal adjustments give equal bytes."""
        return to_json(self.model_dump(exclude_none=True))


def read_adjustment(value: bytes) -> Adjustment:
    """The adjustment in a record's value. Raises BadInputError; the reason repeats no input."""
    try:
        document = from_json(value, allow_inf_nan=False)
    except ValueError:
        raise BadInputError(f"{ADJUSTMENT_REASON}not JSON") from None
    try:
        return Adjustment.model_validate(document)
    except ValidationError as error:
        raise BadInputError(f"{ADJUSTMENT_REASON}{reason_of(error)}") from None


def check_draft(document: dict[str, Any]) -> Draft:
    """The draft in a document already parsed. Raises BadInputError with the reason."""
    try:
        return Draft.model_validate(document)
    except ValidationError as error:
        raise BadInputError(reason_of(error)) from None


def reason_of(error: ValidationError) -> str:
    """Why it was refused: `field: reason`, with `; ` between."""
    problems = error.errors()
    reasons = []
    for problem in problems[:_REASONS_MAX]:
        field = ": ".join(str(part)[:_NAME_CHARS_MAX] for part in problem["loc"][:1])
        what = {"missing": "missing", "extra_forbidden": "unknown field"}.get(
            problem["type"], problem["msg"]
        )
        reasons.append(f"{field}: {what}" if field else what)
    if len(problems) > _REASONS_MAX:
        reasons.append(f"and {len(problems) - _REASONS_MAX} more")
    return "; ".join(reasons)
