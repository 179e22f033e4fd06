"""docs/reference/http.md: the web API, from the OpenAPI document that the code gives."""

from collections.abc import Iterator
from typing import Any

from pipeline.clock import SystemClock
from pipeline.reference.markdown import code, page, table
from pipeline.reference.models import number
from pipeline.web.app import REFUSALS, build_app
from pipeline.web.services import Services
from schemas.settings import Settings

_INTRODUCTION = """\
A running Tally tells the same at `/docs` for people and at `/openapi.json` for programs.
[The web API](../web.md) says how to use it: modes, receipts, sessions, limits. Answers are JSON
objects unless it says otherwise; an error is `{"error": "one line that says what to do"}`."""
_METHODS = ("get", "post", "put", "patch", "delete")


def openapi() -> dict[str, Any]:
    """The document as a web process without tokens gives it. Connects to nobody."""
    settings = Settings.model_construct(
        **{name: field.get_default() for name, field in Settings.model_fields.items()}
    )
    return build_app(Services(settings, SystemClock())).openapi()


def http_page() -> str:
    """The page. Raises nothing."""
    document = openapi()
    return page(
        "HTTP",
        _INTRODUCTION,
        "",
        "## Errors",
        "",
        *table(("status", "when"), ((code(str(status)), why) for status, why in REFUSALS.items())),
        *_paths(document),
        *_objects(document),
    )


def _paths(document: dict[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                one = methods[method]
                tag = (one.get("tags") or ["others"])[0]
                by_tag.setdefault(tag, []).append((method.upper(), path, one))
    for tag, operations in by_tag.items():
        yield f"## {tag.capitalize()}"
        yield ""
        for method, path, one in operations:
            yield f"### {method} {path}"
            yield ""
            yield one.get("description", "").strip()
            yield ""
            yield from _parameters(one)
            yield from _body(one)
            yield from _answer(one)


def _parameters(one: dict[str, Any]) -> Iterator[str]:
    yield from table(
        ("parameter", "in", "takes", "default", "meaning"),
        (
            (
                code(each["name"]),
                each["in"],
                _kind(each["schema"]),
                _default(each),
                each.get("description", ""),
            )
            for each in one.get("parameters", [])
        ),
    )


def _default(parameter: dict[str, Any]) -> str:
    if parameter.get("required"):
        return "required"
    default = parameter["schema"].get("default")
    return "" if default in {None, ""} else code(str(default))


def _body(one: dict[str, Any]) -> Iterator[str]:
    for kind, each in one.get("requestBody", {}).get("content", {}).items():
        schema, said = each.get("schema", {}), one["requestBody"].get("description", "")
        yield f"Body, `{kind}`: {said or _kind(schema)}"
        yield ""
        yield from _fields(schema)


def _answer(one: dict[str, Any]) -> Iterator[str]:
    for status, answer in one["responses"].items():
        if not status.startswith("2"):
            continue
        for kind, each in answer.get("content", {}).items():
            schema = each.get("schema", {})
            yield f"Answer {status}, `{kind}`" + (f": {_kind(schema)}" if schema else "")
            yield ""


def _objects(document: dict[str, Any]) -> Iterator[str]:
    yield "## Objects"
    yield ""
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}"
        yield ""
        yield schema.get("description", "").strip()
        yield ""
        yield from _fields(schema)


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", [])
    yield from table(
        ("field", "takes", "meaning"),
        (
            (
                code(field) + ("" if field in required else ", may be missing"),
                _kind(each),
                each.get("description", ""),
            )
            for field, each in schema.get("properties", {}).items()
        ),
    )


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(
        schema.get("type", ""), schema.get("type", "anything")
    )
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    bounds = [
        f"{word} {number(schema[name])}"
        for name, word in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
        if isinstance(schema.get(name), int | float)
    ]
    return ", ".join(filter(None, [kind, " ".join(bounds)]))
