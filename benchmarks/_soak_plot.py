"""What was watched over a soak, as a plot: a panel for each kind, a line for each process."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks._soak_flat import Series

_WIDTH, _LEFT, _RIGHT = 820, 70, 24
_TOP, _PANEL, _GAP, _BOTTOM = 76, 130, 62, 40
_LINES = 4
_COLOURS = (
    ("#0969da", "#58a6ff"),
    ("#bc4c00", "#f0883e"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#bc8cff"),
    ("#cf222e", "#ff7b72"),
)


def _style() -> str:
    light = "".join(f".c{i} {{ stroke: {one} }} " for i, (one, _) in enumerate(_COLOURS))
    dark = "".join(f".c{i} {{ stroke: {two} }} " for i, (_, two) in enumerate(_COLOURS))
    # The plot has a background of its own, so that it is readable on pages of any colour.
    return f"""
  .paper {{ fill: #ffffff }} text {{ fill: #24292f; font: 13px sans-serif }}
  .title {{ font-size: 15px; font-weight: bold }} path {{ fill: none; stroke-width: 1.5 }}
  .grid {{ stroke: #d0d7de; stroke-width: 1 }} .axis {{ stroke: #57606a; stroke-width: 1 }}
  {light}
  @media (prefers-color-scheme: dark) {{
    .paper {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} .grid {{ stroke: #30363d }}
    .axis {{ stroke: #8b949e }} {dark}
  }}
"""


def plot(title: str, panels: Mapping[str, Mapping[str, Series]], seconds: float) -> str:
    """An SVG document; all panels share the time, values are from zero on."""
    height = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
        _text(_LEFT, 28, title, "start", "title"),
    ]
    for number, (name, series) in enumerate(panels.items()):
        lines += _panel(_TOP + number * (_PANEL + _GAP), name, series, seconds)
    return "\n".join([*lines, "</svg>\n"])


def _panel(top: float, name: str, several: Mapping[str, Series], seconds: float) -> list[str]:
    wide = _WIDTH - _LEFT - _RIGHT
    greatest = max((value for series in several.values() for _, value in series), default=1.0)
    step = _step(max(greatest, 1.0) / _LINES)
    lines = []
    for number in range(_LINES + 1):
        y = top + _PANEL * (1 - number / _LINES)
        kind = "grid" if number else "axis"
        lines.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}h{wide}"/>')
        lines.append(_text(_LEFT - 8, y + 4.5, f"{number * step:g}", "end"))
    for sixth in range(7):
        x = _LEFT + wide * sixth / 6
        minutes = f"{seconds * sixth / 360:g} min"
        lines.append(_text(round(x, 1), top + _PANEL + 18, minutes, "middle"))
    lines.append(_text(_LEFT, top - 10, name, "start"))
    at = _LEFT + 7.2 * len(name) + 24
    for number, (label, series) in enumerate(several.items()):
        colour = f"c{number % len(_COLOURS)}"
        points = "L".join(
            f"{_LEFT + wide * at_s / seconds:.1f} {top + _PANEL * (1 - value / step / _LINES):.1f}"
            for at_s, value in series
        )
        if points:
            lines.append(f'<path class="{colour}" d="M{points}"/>')
        lines.append(f'<path class="{colour}" d="M{at:.0f} {top - 14:.0f}h18"/>')
        lines.append(_text(round(at + 23, 1), top - 10, label, "start"))
        at += 23 + 7.2 * len(label) + 16
    return lines


def _step(least: float) -> float:
    """A round number, not below the given one."""
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return next(
        round(m * power, 6) for m in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if m * power >= least
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
