"""The token file, read and checked, and the rights in a JWT's claim.

[tokens.dashboard]              # a name: letters, digits, '_' and '-'
hash = "sha256:…"               # of the token, which is kept nowhere
read = ["*"]                    # families, or "*" for all; left out: none
write = ["likes", "views"]
admin = []                      # includes reading and writing
rate = 100                      # requests a second; left out: TALLY_RATE_MAX
expires = "2027-01-31T00:00:00Z"
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from schemas.times import parse_rfc3339_ms
from schemas.toml_files import mistake, read_document, read_text
from schemas.toml_places import nearest, place_in

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_FAMILY_MAX_BYTES = 255
_FAMILIES_MAX = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_EXPECTED_MOMENT = "expected a moment such as 2027-01-31T00:00:00Z"


def _family(text: str) -> str:
    if not text or ":" in text or len(text.encode("utf-8", "replace")) > _FAMILY_MAX_BYTES:
        raise ValueError('expected families, 1 to 255 bytes each without ":", or "*" for all')
    return text


def _hash(text: str) -> str:
    if _HASH.fullmatch(text) is None:
        raise ValueError('expected "sha256:" and 64 hex digits; `tally token add` writes it')
    return text


def _moment_ms(value: object) -> object:
    """TOML has moments of its own beside texts; both are RFC 3339."""
    at_ms = parse_rfc3339_ms(value) if isinstance(value, str) else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        at_ms = (value - _EPOCH) // _MILLISECOND
    if at_ms is None:
        raise ValueError(_EXPECTED_MOMENT)
    return at_ms


Families = Annotated[list[Annotated[str, AfterValidator(_family)]], Field(max_length=_FAMILIES_MAX)]


class RightsTable(BaseModel):
    """Rights as they are written, in the token file and in the claim `tally` of a JWT."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    read: Families = Field(default_factory=list)
    write: Families = Field(default_factory=list)
    admin: Families = Field(default_factory=list)
    rate: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)


class TokenTable(RightsTable):
    """One token."""

    hash: Annotated[str, AfterValidator(_hash)] = Field(repr=False)
    expires: Annotated[int | None, BeforeValidator(_moment_ms)] = None
    """Milliseconds since 1970."""

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.hash.removeprefix("sha256:"))


class TokensTable(BaseModel):
    """A whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tokens: dict[str, TokenTable] = Field(default_factory=dict)


def is_token_name(name: str) -> bool:
    """Whether a token may be called so: all such names are bare keys of TOML."""
    return _NAME.fullmatch(name) is not None


def load_tokens(path: Path) -> TokensTable:
    """Reads the disk. Raises OperatorError with file, line and field."""
    return parse_tokens(read_text(path, "; `tally token add` makes one"), str(path))


def parse_tokens(text: str, file: str = "tokens.toml") -> TokensTable:
    """The tokens in a TOML text. Raises OperatorError naming `file`, the line and the field."""
    document = read_document(text, file)
    problem = _first_problem(document)
    if problem is None:
        return TokensTable.model_validate(document)
    raise mistake(text, file, *problem)


def _first_problem(document: dict[str, Any]) -> tuple[tuple[str, ...], str] | None:
    try:
        table = TokensTable.model_validate(document)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        place = place_in(document, tuple(map(str, problem["loc"])))
        return place, _reason(problem["type"], problem["msg"], place)
    seen: dict[str, str] = {}
    for name, token in table.tokens.items():
        if not is_token_name(name):
            return ("tokens", name), "a token's name is 1 to 64 letters, digits, '_' or '-'"
        other = seen.setdefault(token.hash, name)
        if other != name:
            return ("tokens", name, "hash"), f"the same as that of {other}"
    return None


def _reason(kind: str, message: str, place: tuple[str, ...]) -> str:
    if kind == "extra_forbidden":
        model: type[BaseModel] = TokensTable if len(place) == 1 else TokenTable
        return "unknown" + nearest(place[-1], model.model_fields)
    if kind == "missing":
        return "it has no hash; `tally token add` writes one"
    if kind in {"dict_type", "model_type"}:
        return "expected a table"
    text = message.removeprefix("Value error, ").replace("Input should be", "expected")
    return text[:1].lower() + text[1:]
