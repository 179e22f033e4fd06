"""What a pydantic field takes and what it is without being set, in words. Pure."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from pipeline.reference.markdown import code

_WORDS: dict[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretStr: "text",
}
_BOUNDS = {
    Ge: ("ge", "from {}"),
    Gt: ("gt", "above {}"),
    Le: ("le", "to {}"),
    Lt: ("lt", "below {}"),
}


def takes(field: FieldInfo) -> str:
    """The kind of value with its bounds, for instance `whole number, from 1 to 4096`."""
    kind = _kind(field.annotation)
    bounds = [
        text.format(number(getattr(one, name)))
        for bound, (name, text) in _BOUNDS.items()
        for one in field.metadata
        if isinstance(one, bound)
    ]
    return ", ".join(filter(None, [kind, " ".join(sorted(bounds, key=_lowest_first))]))


def _lowest_first(bound: str) -> bool:
    return bound.startswith(("to", "below"))


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        inner, *rest = get_args(annotation)
        return takes(FieldInfo.from_annotation(annotation)) if rest else _kind(inner)
    if get_origin(annotation) is Literal:
        return ", ".join(code(str(value)) for value in get_args(annotation))
    if get_origin(annotation) is list:
        return f"list of {_kind(get_args(annotation)[0])}"
    inner_kinds = [_kind(one) for one in get_args(annotation) if one is not type(None)]
    return _WORDS.get(annotation) or " or ".join(filter(None, inner_kinds))


def number(value: Any) -> str:
    """A bound or a default as people write it: no exponent below a billion, no `.0`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return f"{value:f}".rstrip("0") if isinstance(value, float) and value < 1e-3 else str(value)
