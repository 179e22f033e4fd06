"""docs/reference/events.md: what goes into the topics, from the models that define it."""

import json
from collections.abc import Iterator
from typing import Any

from pipeline.reference.markdown import code, page, table
from schemas.events import event_json_schema
from schemas.strict import command_json_schema

_EVENT = """\
One JSON object for each message of the topic `tally.increments`; many at once travel as a frame, an
Arrow IPC stream with the same columns (`tally produce --frames`, `Producer`). Anything else is
[a dead letter](../dead-letters.md)."""
_COMMAND = """\
One JSON object for each message of the topic `tally.strict`. Most people ask over
[HTTP](http.md) instead: see [strict counters](../strict.md)."""


def events_page() -> str:
    """The page. Raises nothing."""
    return page(
        "Events and commands",
        "`tally schema` and `tally schema --strict` print the same schemas for programs.",
        "",
        "## An event",
        "",
        _EVENT,
        "",
        *_described(event_json_schema()),
        "## A command to a strict counter",
        "",
        _COMMAND,
        "",
        *_described(command_json_schema()),
    )


def _described(schema: dict[str, Any]) -> Iterator[str]:
    required = schema["required"]
    yield from table(
        ("field", "takes", "default", "meaning"),
        (
            (code(name), _takes(one), _default(name, one, required), one["description"])
            for name, one in schema["properties"].items()
        ),
    )
    yield "```json"
    yield json.dumps(schema, indent=2)
    yield "```"
    yield ""


def _default(name: str, field: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "required"
    return "" if field.get("default") is None else code(json.dumps(field["default"]))


def _takes(field: dict[str, Any]) -> str:
    either = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    return " or ".join(map(_kind, either))


def _kind(one: dict[str, Any]) -> str:
    if "enum" in one:
        return ", ".join(map(code, one["enum"]))
    if one["type"] == "integer":
        return f"whole number, {one['minimum']} to {one['maximum']}"
    if one.get("format") == "date-time":
        return "RFC 3339 text"
    return "text"
