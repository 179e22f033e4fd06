"""Tables in Markdown, and texts that commands write between two markers of a page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def written(page: str, begin: str, end: str, text: str) -> str:
    """The page with what is between the markers replaced. Raises ValueError without markers."""
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page needs the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def between(page: str, begin: str, end: str) -> str:
    """What is between the markers. Raises ValueError without them."""
    _, has_begin, rest = page.partition(begin)
    text, has_end, _ = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page needs the lines {begin} and {end}")
    return text.strip("\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these heads; every row has as many fields."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
