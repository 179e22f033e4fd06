"""A ranking as lines of text: places, how they changed, names, figures, bars. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from pipeline.cli.printable import printable

BAR_CELLS_MAX = 40
BAR_CELLS_MIN = 8
NAME_CELLS_MIN = 8
GAP = "  "


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One line: a name, what its bar shows (the greatest is the longest), and figures as text.

    `place` is None for its place among the rows.
    """

    name: str
    weight: float
    figures: tuple[str, ...]
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Signs:
    """What lines are drawn with. `PLAIN` is for terminals whose encoding has nothing better."""

    up: str = "▲"
    down: str = "▼"
    bar: str = "█"
    cut: str = "…"


PLAIN = Signs("+", "-", "#", "~")


def board_lines(
    before: Sequence[BoardRow] | None,
    now: Sequence[BoardRow],
    width: int | None,
    signs: Signs | None = None,
) -> list[str]:
    """Lines of at most `width` cells, long names cut. Without a width none is cut, and no bars.

    Places are told from those `before`; None is the first time, when nothing can have changed.
    """
    signs = signs or Signs()
    places = None if before is None else {row.name: at for at, row in _places(before)}
    heads = _right([[str(at), _change(places, row.name, at, signs)] for at, row in _places(now)])
    figures = _right([list(row.figures) for row in now])
    names = [printable(row.name) for row in now]
    natural = max(map(cell_len, names), default=0)
    bar_cells = 0
    if width is not None and now:
        room = width - len(GAP) * 2 - cell_len(heads[0]) - cell_len(figures[0])
        # Names come first; a bar has what they leave, if that is enough to see anything.
        bar_cells = min(room - natural - len(GAP), BAR_CELLS_MAX)
        if bar_cells < BAR_CELLS_MIN:
            bar_cells = 0
        natural = min(natural, max(room, NAME_CELLS_MIN))
    greatest = max((row.weight for row in now), default=0.0)
    lines = []
    for head, row, figure in zip(heads, now, figures, strict=True):
        bar = signs.bar * _bar(row.weight, greatest, bar_cells)
        name = fit(row.name, natural, signs.cut)
        name += " " * (natural - cell_len(name))
        lines.append(GAP.join([head, name, figure, bar]).rstrip())
    return lines


def fit(text: str, cells: int, cut: str = "…") -> str:
    """The text as it may be shown, in at most so many cells of a terminal.

    A wide character or an escape is never cut in two.
    """
    whole = printable(text)
    if cell_len(whole) <= cells:
        return whole
    kept = ""
    for character in text:
        longer = kept + printable(character)
        if cell_len(longer) > cells - cell_len(cut):
            break
        kept = longer
    return kept + cut


def _places(rows: Sequence[BoardRow]) -> Iterator[tuple[int, BoardRow]]:
    for at, row in enumerate(rows, start=1):
        yield at if row.place is None else row.place, row


def _change(places: Mapping[str, int] | None, name: str, at: int, signs: Signs) -> str:
    """How a place changed since the last time."""
    if places is None:
        return ""
    if name not in places:
        return "new"
    risen = places[name] - at
    if not risen:
        return ""
    return f"{signs.up if risen > 0 else signs.down}{abs(risen)}"


def _bar(weight: float, greatest: float, cells: int) -> int:
    """How many cells long; whatever is above zero is seen."""
    if weight <= 0 or not cells:
        return 0
    return max(1, round(cells * weight / greatest))


def _right(table: list[list[str]]) -> list[str]:
    """The columns of each line put together, each as wide as its widest; numbers end in line."""
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    return [
        GAP.join(
            " " * (size - cell_len(text)) + text for text, size in zip(row, widths, strict=True)
        )
        for row in table
    ]
