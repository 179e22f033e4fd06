"""The tables of docs/metrics.md, written by `python -m pipeline.metrics.page docs/metrics.md`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.metrics.definitions.all import BY_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.metrics.definition import AnyDefinition, Label

BEGIN = "<!-- The tables from here are written by python -m pipeline.metrics.page -->"
END = "<!-- to here -->"

TITLES = {
    "worker": "A worker",
    "pipeline": "The whole pipeline",
    "web": "The web API",
    "log": "The embedded log",
    "clickhouse": "The embedded ClickHouse",
}


def with_tables(page: str) -> str:
    """The page with its tables as the definitions are now. Raises ValueError without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return "\n".join([f"{before}{BEGIN}", *_sections(), f"{END}{after}"])


def _sections() -> Iterator[str]:
    for process, definitions in BY_PROCESS.items():
        yield f"\n### {TITLES[process]}\n"
        yield from _table(definitions)
    yield ""


def _table(definitions: Iterable[AnyDefinition]) -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for one in definitions:
        labels = "<br>".join(map(_label, one.labels))
        yield f"| `{one.name}` | {one.kind} | {labels} | {one.meaning} |"


def _label(label: Label) -> str:
    if label.values is None:
        return f"`{label.name}`"
    return f"`{label.name}`: {', '.join(label.values)}"


def main(arguments: Sequence[str]) -> None:
    """Writes the tables into the page at `arguments[0]`."""
    page = Path(arguments[0])
    page.write_text(with_tables(page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
