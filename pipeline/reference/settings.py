"""docs/reference/settings.md: the environment, and the families' file, from their models."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipeline.reference.markdown import code, page, table
from pipeline.reference.models import number, takes
from schemas.families import Families
from schemas.rules import Family, format_duration
from schemas.settings import ENV_PREFIX, Settings

_INTRODUCTION = """\
Every process reads them from the environment when it starts; an empty variable is taken as unset.
`tally up` sets those of its parts. How to use them: [operations](../operations.md),
[security](../security.md)."""
OTHERS = (
    ("TALLY_DEBUG", "`1` shows tracebacks, as `--debug` does"),
    ("NO_COLOR", "if set, nothing is printed in colours"),
)
_FILE = """\
`tally.toml` where a command is run, or the file that `TALLY_CONFIG` names. What a family leaves out
is taken from `[default]`, and what that leaves out is as this table says. [Rules](../rules.md) has
an example, which settings are in the log, and when a change takes effect."""


def settings_page() -> str:
    """The page. Reads no environment; raises nothing."""
    return page(
        "Settings",
        _INTRODUCTION,
        "",
        "## Environment",
        "",
        "### Kafka",
        "",
        *_environment(_of("kafka")),
        "### ClickHouse",
        "",
        *_environment(_of("clickhouse")),
        "### Tally",
        "",
        *_environment(sorted(set(Settings.model_fields) - {*_of("kafka"), *_of("clickhouse")})),
        "### Not of Tally's settings",
        "",
        *table(("variable", "meaning"), ((code(name), text) for name, text in OTHERS)),
        "## The families' file",
        "",
        _FILE,
        "",
        *_families(),
    )


def variable(field: str) -> str:
    """The name that a field of Settings has in the environment."""
    return f"{ENV_PREFIX}{field.upper()}"


def _of(server: str) -> list[str]:
    """The fields about a server, its address first."""
    return sorted(name for name in Settings.model_fields if name.startswith(server))


def _environment(names: list[str]) -> Iterator[str]:
    fields = ((name, Settings.model_fields[name]) for name in names)
    yield from table(
        ("variable", "takes", "default", "meaning"),
        (
            (code(variable(name)), takes(field) or "text", _default(field), _said(name, field))
            for name, field in fields
        ),
    )


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None or field.default is None:
        return ""
    return code(number(field.default))


def _said(name: str, field: FieldInfo) -> str:
    if not field.description:
        raise ValueError(f"{name} has no description: say in its Field what it is for")
    return field.description


def _families() -> Iterator[str]:
    whole = {
        name: field for name, field in Families.model_fields.items() if name not in OF_FAMILIES
    }
    heads = ("setting", "takes", "default", "meaning")
    yield "### For all families together"
    yield ""
    yield from table(heads, (_row(name, field) for name, field in whole.items()))
    yield "### Of a family, or of `[default]`"
    yield ""
    yield from table(heads, family_rows())


OF_FAMILIES = ("default", "families")


def family_rows() -> Iterator[tuple[str, str, str, str]]:
    """Every setting of a family by the name it has in the file, those of tables with a dot."""
    for name, field in Family.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            table_name = field.alias or name
            for key, one in inner.model_fields.items():
                yield _row(f"{table_name}.{one.alias or key}", one)
        else:
            yield _row(field.alias or name, field)


def _row(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    # Durations and retentions are text in the file and milliseconds in the model.
    if field.alias is not None and isinstance(field.default, int | None):
        kind, default = "duration", _duration(name, field.default)
    else:
        kind, default = takes(field), _toml(field.default)
    return code(name), kind, default, _said(name, field)


def _duration(name: str, default: int | None) -> str:
    if default is None:
        return code('"forever"') if name.startswith("retention.") else ""
    return code(f'"{format_duration(default)}"')


def _toml(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return code(f'"{value}"')
    if isinstance(value, list):
        return code("[" + ", ".join(f'"{one}"' for one in value) + "]")
    return code(number(value))
