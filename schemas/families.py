"""The rules, family by family: `tally.toml` read, checked and merged with the default.

ids_per_partition = 1000000     # every field may be left out

[default]
kind = "exact"                  # exact | sketched | strict
regions = true
lateness = "1d"
cells_max = 1000000
shards = "adaptive"             # or a number
read_mode = "cached"            # cached | exact | live
sketch = { error = 0.002, keys = 1000 }
distinct = { enabled = true, error = 0.02, grains = ["1h", "1d"] }
trends = { k = 100, min_count = 10, min_score = 7.0, min_uniques = 10, max_per_member = 5.0 }
retention = { "1m" = "7d", "1h" = "90d", "1d" = "forever" }
ids = { horizon = "1d" }
once_per = "id"                 # or "member"
once_per_error = 0              # exact; or the share of new members that a filter may lose
strict = { window = "fixed", limit = 100, per = "1m", ids_kept = 1000 }     # kind = "strict"

[families.hashtag]              # the same fields; what is left out is the default's
lateness = "2h"
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from schemas.rules import (
    IDS_PER_PARTITION,
    Distinct,
    Family,
    Ids,
    Retention,
    Rules,
    Sketch,
    Strict,
    Trends,
)
from schemas.toml_files import mistake, read_document, read_text
from schemas.toml_places import nearest, place_in

_FAMILY_MAX_BYTES = 255
_TABLES: dict[str, type[BaseModel]] = {
    "sketch": Sketch,
    "distinct": Distinct,
    "trends": Trends,
    "retention": Retention,
    "ids": Ids,
    "strict": Strict,
}


class Families(Rules):
    """All families' rules, each whole: what a family leaves out was taken from the default."""

    ids_per_partition: int = Field(
        default=IDS_PER_PARTITION,
        ge=1,
        le=100_000_000,
        description="Occurrences of ids that a partition remembers, of all families together.",
    )
    default: Family = Family()
    families: dict[str, Family] = Field(default_factory=dict)

    def for_counter(self, counter: str) -> Family:
        """The rules for `family:key`; the default's for a family that is not named."""
        return self.families.get(counter.partition(":")[0], self.default)


def load_families(path: Path | None) -> Families:
    """The rules in the file, or the defaults without one. Reads the disk.

    Raises OperatorError with file, line and field when the file is away or mistaken.
    """
    if path is None:
        return Families()
    return parse_families(read_text(path), str(path))


def parse_families(text: str, file: str = "tally.toml") -> Families:
    """The rules in a TOML text. Raises OperatorError naming `file`, the line and the field."""
    document = read_document(text, file)
    problem = _first_problem(document)
    if problem is None:
        return Families.model_validate(_merged(document))
    raise mistake(text, file, *problem)


def _first_problem(document: dict[str, Any]) -> tuple[tuple[str, ...], str] | None:
    families = document.get("families", {})
    for name in families if isinstance(families, dict) else ():
        if not name or ":" in name or len(name.encode()) > _FAMILY_MAX_BYTES:
            return ("families", name), "a family's name is 1 to 255 bytes without ':'"
    try:
        # Checked before the merge, so that a mistake in the default is reported there.
        Families.model_validate(document)
    except ValidationError as error:
        problem = error.errors()[0]
        place = place_in(document, tuple(map(str, problem["loc"])))
        return place, _reason(problem["type"], problem["msg"], place)
    return None


def _reason(kind: str, message: str, place: tuple[str, ...]) -> str:
    if kind == "extra_forbidden":
        return "unknown" + nearest(place[-1], _known_keys(place[:-1]))
    if place and place[-1] == "shards":
        return 'expected a number from 1 to 4096, or "adaptive"'
    if kind in {"dict_type", "model_type"}:
        return "expected a table"
    text = message.removeprefix("Value error, ").replace("Input should be", "expected")
    return text[:1].lower() + text[1:]


def _known_keys(table: tuple[str, ...]) -> list[str]:
    inner = table[2:] if table[:1] == ("families",) else table[1:]
    model: type[BaseModel] = Family if table else Families
    for part in inner:
        model = _TABLES[part]
    return [field.alias or name for name, field in model.model_fields.items()]


def _merged(document: dict[str, Any]) -> dict[str, Any]:
    default = document.get("default", {})
    families = document.get("families", {})
    merged = {name: _over(default, family) for name, family in families.items()}
    return {**document, "default": default, "families": merged}


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for name, value in above.items():
        nested = isinstance(value, dict) and isinstance(below.get(name), dict)
        result[name] = _over(below[name], value) if nested else value
    return result
