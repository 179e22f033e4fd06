"""A file of adjustments: JSON lines, or CSV with the fields' names in its first line. Pure.

A file is read as a whole, and every mistake in it is told with its line: half a batch of
corrections is worse than none. Its lines get ids from its bytes, so that the same file counts once
however often it is run.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import BadInputError
from schemas.adjustments import Draft, check_draft

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = ("by", "window")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Line(NamedTuple):
    """What one line asks for."""

    number: int
    draft: Draft


class Mistake(NamedTuple):
    """Why a line, counted from 1, cannot be taken."""

    line: int
    reason: str


def read_lines(data: bytes, *, who: str, why: str | None) -> tuple[list[Line], list[Mistake]]:
    """The drafts in a file, and what is wrong in it. Never raises.

    `who` and `why` are for lines that do not say.
    """
    lines: list[Line] = []
    mistakes: list[Mistake] = []
    places: dict[tuple[str, str], int] = {}
    digest = hashlib.sha256(data).hexdigest()[:16]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [Mistake(data[: error.start].count(b"\n") + 1, "not UTF-8 text")]
    for number, document in _documents(text):
        try:
            draft = _draft(document, {"id": f"{digest}-{number}", "who": who, "why": why})
        except BadInputError as error:
            mistakes.append(Mistake(number, str(error)))
            continue
        first = places.setdefault((draft.counter, draft.id or ""), number)
        if first != number:
            mistakes.append(Mistake(number, f"id: the same as in line {first}"))
        lines.append(Line(number, draft))
    if not lines and not mistakes:
        mistakes.append(Mistake(1, "no adjustments in it"))
    return lines, mistakes


def _draft(document: object, defaults: dict[str, str | None]) -> Draft:
    if isinstance(document, BadInputError):
        raise document
    if not isinstance(document, dict):
        raise BadInputError("not a JSON object")
    said = {name: value for name, value in document.items() if value is not None}
    window = said.get("window")
    if isinstance(window, str) and _DAY.fullmatch(window):
        said["window"] = f"{window}T00:00:00Z"
    draft = check_draft({**defaults, **said})
    if draft.why is None:
        raise BadInputError("why: missing; say it in the line, or for all with --why")
    return draft


def _documents(text: str) -> Iterator[tuple[int, object]]:
    """What each line holds; an error stands for one that cannot be read."""
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, _json(line)
        return
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    names: list[str] | None = None
    try:
        for row in rows:
            if not any(row):
                continue
            if names is None:
                names = [name.strip() for name in row]
            else:
                yield rows.line_num, _of_row(names, row)
    except csv.Error as error:
        yield rows.line_num, BadInputError(f"not CSV: {error}")


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return BadInputError("not JSON")


def _of_row(names: list[str], row: list[str]) -> object:
    if len(row) != len(names):
        return BadInputError(f"{len(row)} fields, but the first line names {len(names)}")
    document: dict[str, Any] = {name: value or None for name, value in zip(names, row, strict=True)}
    for name in _NUMBERS:
        if (value := document.get(name)) is not None and _NUMBER.fullmatch(value):
            document[name] = int(value)
    return document
