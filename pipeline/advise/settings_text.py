"""A family's settings as TOML, as `tally.toml` has them. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def family_text(family: str, settings: Mapping[str, Any]) -> str:
    """The table of one family; also without settings, since naming a family gives it its own cap.

    Values are texts, numbers, truths, lists and tables of these.
    """
    lines = [f"[families.{_key(family)}]"]
    lines += [f"{_key(name)} = {_value(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    # TOML's basic strings have JSON's escapes, but none for halves of characters; and DEL, which
    # JSON leaves alone, must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
        case _:
            raise TypeError(f"no TOML for {type(value).__name__}")
