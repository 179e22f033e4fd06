"""The race as a plot: a bar for each contestant, over a logarithmic axis of events a second."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.race.figures import Figures, Race

_WIDTH, _LEFT, _RIGHT = 820, 208, 150
_TOP, _BAR, _GAP, _BOTTOM = 62, 20, 10, 52

# The plot has a background of its own, so that it is readable on pages of any colour.
_STYLE = """
  .paper { fill: #ffffff } text { fill: #24292f; font: 13px sans-serif }
  .title { font-size: 15px; font-weight: bold }
  .grid { stroke: #d0d7de; stroke-width: 1 } .range { stroke: #24292f; stroke-width: 1.5 }
  .ours { fill: #0969da } .other { fill: #8c959f } .ceiling { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .range { stroke: #e6edf3 } .ours { fill: #58a6ff } .other { fill: #6e7681 }
    .ceiling { fill: #f0883e }
  }
"""


def plot(race: Race) -> str:
    """An SVG document; contestants from the quickest to the slowest."""
    shown = sorted(race.figures, key=lambda one: -one.per_s)
    height = _TOP + len(shown) * (_BAR + _GAP) + _BOTTOM
    low = 10 ** math.floor(math.log10(min(min(one.rounds_per_s) for one in shown)))
    high = max(max(one.rounds_per_s) for one in shown)
    title = f"{race.events:,} events counted per counter and minute: events a second"
    bottom = height - _BOTTOM
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
            _text(24, 30, title, "start", "title"),
            *_axis(low, high, bottom),
            *(
                line
                for number, one in enumerate(shown)
                for line in _bar(one, _TOP + number * (_BAR + _GAP), low, high, race)
            ),
            _text(24, height - 14, "logarithmic; thin lines: slowest to quickest round", "start"),
            "</svg>\n",
        )
    )


def _bar(one: Figures, top: float, low: float, high: float, race: Race) -> list[str]:
    kind = "ours" if one.name.startswith("Tally") else "other"
    kind = "ceiling" if one is race.figures[0] else kind
    right, middle = _across(one.per_s, low, high), top + _BAR / 2
    slowest, quickest = (_across(f(one.rounds_per_s), low, high) for f in (min, max))
    place = f'x="{_LEFT}" y="{top}" width="{right - _LEFT:.1f}" height="{_BAR}"'
    label = f"{one.per_s:,.0f}  ({one.ratio:.2g} x)"
    return [
        _text(_LEFT - 8, middle + 4.5, one.name, "end"),
        f'<rect class="{kind}" {place}/>',
        f'<path class="range" d="M{slowest:.1f} {middle:.1f}H{quickest:.1f}"/>',
        _text(round(max(right, quickest) + 6, 1), middle + 4.5, label, "start"),
    ]


def _axis(low: float, high: float, bottom: float) -> list[str]:
    lines = []
    for power in range(round(math.log10(low)), math.floor(math.log10(high)) + 1):
        x = _across(10.0**power, low, high)
        lines.append(f'<path class="grid" d="M{x:.1f} {_TOP - 8}V{bottom}"/>')
        lines.append(_text(round(x, 1), bottom + 16, f"{10**power:,}", "middle"))
    return lines


def _across(rate: float, low: float, high: float) -> float:
    share = math.log(rate / low) / math.log(high / low)
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
