"""Small parts of Markdown, escaped so that the text of strangers cannot break a table. Pure."""

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; none without rows. Cells are Markdown, in one line each."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if not lines:
        return
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from lines
    yield ""


def cell(text: str) -> str:
    """The text as a table may hold it: in one line, and without a bar that would end it."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """The text as code, or nothing if it is empty."""
    return f"`{text}`" if text else ""


def page(title: str, *lines: str) -> str:
    """A whole page with the remark that nobody should edit it. Empty lines are never doubled."""
    text = "\n".join([f"# {title}", "", WRITTEN, "", *lines])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.rstrip("\n") + "\n"


WRITTEN = "<!-- Written from the code by python -m pipeline.reference --write: do not edit. -->"
