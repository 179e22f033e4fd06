"""What an event costs over what may grow, as a plot: a panel for each, a line for each form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks._growth_page import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._growth_case import Row

_WIDTH, _LEFT, _RIGHT, _COLUMN_GAP = 820, 62, 24, 70
_TOP, _PANEL, _GAP, _BOTTOM = 76, 170, 66, 40
_COLUMNS = 2
_LINES = 4
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# The plot has a background of its own, so that it is readable on pages of any colour.
_STYLE = """
  .paper { fill: #ffffff } text { fill: #24292f; font: 13px sans-serif }
  .title { font-size: 15px; font-weight: bold } path { fill: none }
  .grid { stroke: #d0d7de; stroke-width: 1 } .axis { stroke: #57606a; stroke-width: 1 }
  .JSON { stroke: #0969da; stroke-width: 2 } .frames { stroke: #bc4c00; stroke-width: 2 }
  circle.JSON { fill: #0969da } circle.frames { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .axis { stroke: #8b949e } .JSON { stroke: #58a6ff } .frames { stroke: #f0883e }
    circle.JSON { fill: #58a6ff } circle.frames { fill: #f0883e }
  }
"""


def plot(rows: Sequence[Row]) -> str:
    """An SVG document; sizes on logarithmic axes, costs from zero on."""
    by_axis: dict[str, dict[str, list[Row]]] = {}
    for (axis, form), found in tables(rows).items():
        by_axis.setdefault(axis, {})[form] = found
    deep = math.ceil(len(by_axis) / _COLUMNS)
    height = _TOP + deep * (_PANEL + _GAP) - _GAP + _BOTTOM
    title = "Processors' seconds per million events: workers, ClickHouse and broker together"
    panels = [_panel(at, axis, forms) for at, (axis, forms) in enumerate(by_axis.items())]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
            _text(_LEFT, 28, title, "start", "title"),
            *(line for panel in panels for line in panel),
            "</svg>\n",
        )
    )


def _panel(at: int, axis: str, forms: dict[str, list[Row]]) -> list[str]:
    wide = (_WIDTH - _LEFT - _RIGHT - _COLUMN_GAP) / _COLUMNS
    left = _LEFT + at % _COLUMNS * (wide + _COLUMN_GAP)
    top = _TOP + at // _COLUMNS * (_PANEL + _GAP)
    all_rows = [row for rows in forms.values() for row in rows]
    step = _step(max(row.all_s for row in all_rows) / _LINES)
    sizes = sorted({row.size for row in all_rows})
    span = math.log(sizes[-1] / sizes[0]) or 1.0

    def across(size: int) -> float:
        return left + 14 + (wide - 28) * math.log(size / sizes[0]) / span

    def down(cost: float) -> float:
        return top + _PANEL * (1 - cost / (step * _LINES))

    lines = []
    for number in range(_LINES + 1):
        y = down(number * step)
        kind = "grid" if number else "axis"
        lines.append(f'<path class="{kind}" d="M{left:.1f} {y:.1f}h{wide:.1f}"/>')
        lines.append(_text(left - 8, y + 4.5, f"{number * step:g}", "end"))
    for size in sizes:
        x = across(size)
        lines.append(f'<path class="axis" d="M{x:.1f} {top + _PANEL}v4"/>')
        lines.append(_text(round(x, 1), top + _PANEL + 18, _short(size), "middle"))
    for form, rows in forms.items():
        points = [(across(row.size), down(row.all_s)) for row in rows]
        lines.append(
            f'<path class="{form}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'
        )
        lines += [f'<circle class="{form}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    return [*lines, *_names(left, top, axis, list(forms))]


def _names(left: float, top: float, axis: str, forms: Sequence[str]) -> list[str]:
    """What grows, and the legend, above a panel."""
    lines = [_text(round(left, 1), top - 10, axis, "start")]
    at = left + 7.2 * len(axis) + 18
    for form in forms:
        lines.append(f'<path class="{form}" d="M{at:.0f} {top - 14:.0f}h18"/>')
        lines.append(_text(round(at + 23, 1), top - 10, form, "start"))
        at += 23 + 7.2 * len(form) + 16
    return lines


def _step(least: float) -> float:
    """A round number, not below the given one."""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(
        round(m * power, 6) for m in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if m * power >= least
    )


def _short(size: int) -> str:
    """A power of ten as such."""
    power = round(math.log10(size))
    if size >= 1000 and 10**power == size:
        return f"10{str(power).translate(_SUPERSCRIPTS)}"
    return f"{size:,}"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
