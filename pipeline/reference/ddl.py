"""Tables and views as the numbered SQL files declare them: names, columns, comments. Pure.

What this reads out of the text is compared with what a ClickHouse says that ran the files, by
tests/integration/test_reference_tables.py.
"""

import re
from dataclasses import dataclass, replace

from schemas.migrate import read_migrations

_CREATE = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?P<kind>TABLE|VIEW|MATERIALIZED\s+VIEW)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?tally\.(?P<name>\w+)\s*(?P<rest>.*)",
    re.DOTALL,
)
_ADD = re.compile(
    r"ALTER\s+TABLE\s+tally\.(?P<name>\w+)\s+ADD\s+COLUMN\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<column>.*)",
    re.DOTALL,
)
_TEXT = r"'((?:[^'\\]|\\.|'')*)'"
_COMMENT = re.compile(rf"\bCOMMENT\s+{_TEXT}\s*\Z")
_COLUMN = re.compile(rf"`?(?P<name>\w+)`?\s+(?P<type>.*?)(?:\s+COMMENT\s+{_TEXT})?\s*\Z", re.DOTALL)
_NOT_OF_THE_TYPE = re.compile(r"\s+(?:MATERIALIZED|DEFAULT|ALIAS|CODEC)\b.*", re.DOTALL)
_NO_COLUMNS = ("INDEX", "CONSTRAINT", "PROJECTION")


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its comment is empty where it has none."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view of the database `tally`. A view may declare no columns of its own."""

    name: str
    is_view: bool
    columns: tuple[Column, ...]
    comment: str
    file: str


def relations() -> list[Relation]:
    """All of them, as their last declaration has them, with columns that were added since; in the
    order of the files."""
    found: dict[str, Relation] = {}
    for migration in read_migrations():
        for statement in migration.statements:
            one = _relation(statement, migration.file)
            if one is not None:
                found[one.name] = one
            elif added := _ADD.match(statement):
                old = found[added["name"]]
                columns = (*old.columns, *_columns(f"({added['column']})"))
                found[old.name] = replace(old, columns=columns)
    return list(found.values())


def _relation(statement: str, file: str) -> Relation | None:
    match = _CREATE.match(statement)
    if match is None:
        return None
    comment = _COMMENT.search(statement)
    return Relation(
        match["name"],
        match["kind"] != "TABLE",
        tuple(_columns(match["rest"])) if match["rest"].startswith("(") else (),
        _plain(comment[1]) if comment else "",
        file,
    )


def _columns(rest: str) -> list[Column]:
    columns = []
    for part in _parts(rest):
        match = _COLUMN.match(part)
        if match is None or match["name"] in _NO_COLUMNS:
            continue
        kind = _NOT_OF_THE_TYPE.sub("", " ".join(match["type"].split()))
        columns.append(Column(match["name"], kind, _plain(match[3] or "")))
    return columns


def _parts(rest: str) -> list[str]:
    """What stands between the first parenthesis and its end, taken apart at its commas."""
    depth, parts = 0, [""]
    for piece in re.findall(rf"{_TEXT.replace('(', '(?:', 1)}|.", rest, re.DOTALL):
        if piece == ")":
            depth -= 1
            if not depth:
                break
        if piece == "," and depth == 1:
            parts.append("")
        elif depth:
            parts[-1] += piece
        if piece == "(":
            depth += 1
    return [part.strip() for part in parts if part.strip()]


def _plain(text: str) -> str:
    return text.replace("''", "'").replace("\\'", "'").replace("\\\\", "\\")
