"""The busiest partition's share as a plot: a panel for each exponent, over the partitions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks._skew import Skew

    Point = tuple[float, float]

_WIDTH, _LEFT, _RIGHT = 820, 76, 92
_TOP, _PANEL, _GAP, _BOTTOM = 74, 150, 62, 44
_EDGE = 26
"""Between the frame and the first and last point."""

# The plot has a background of its own, so that it is readable on pages of any colour.
_STYLE = """
  .paper { fill: #ffffff } text { fill: #24292f; font: 13px sans-serif }
  .title { font-size: 15px; font-weight: bold }
  path { fill: none } .grid { stroke: #d0d7de; stroke-width: 1 }
  .axis { stroke: #57606a; stroke-width: 1 } .planned { stroke: #0969da; stroke-width: 2 }
  .whole { stroke: #bc4c00; stroke-width: 2 }
  .even { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .axis { stroke: #8b949e } .planned { stroke: #58a6ff } .whole { stroke: #f0883e }
    .even { stroke: #8b949e }
  }
"""


def plot(found: Sequence[Skew], viral_share: float) -> str:
    """An SVG document. Both axes are logarithmic; the right one is 1/share, the workers that can
    be busy at once."""
    exponents = sorted({one.exponent for one in found})
    height = _TOP + len(exponents) * (_PANEL + _GAP) - _GAP + _BOTTOM
    sizes = sorted({one.partitions for one in found})
    across, down = _across(sizes), _down(sizes)
    lines = []
    for number, exponent in enumerate(exponents):
        top = _TOP + number * (_PANEL + _GAP)
        points = [one for one in found if one.exponent == exponent]
        lines += _panel(top, exponent, points, across, lambda y, top=top: top + down(y))  # type: ignore[misc]
    title = f"The busiest partition's share, one counter having {viral_share:.0%} of all rows"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
            _text(_LEFT, 28, title, "start", "title"),
            _text(_WIDTH - 12, 28, "workers busy", "end"),
            *lines,
            _text((_LEFT + _WIDTH - _RIGHT) / 2, height - 10, "partitions", "middle"),
            "</svg>\n",
        )
    )


def _panel(
    top: float,
    exponent: float,
    found: Sequence[Skew],
    across: Callable[[int], float],
    down: Callable[[float], float],
) -> list[str]:
    sizes = [one.partitions for one in found]
    lines = []
    for share in _doublings(max(sizes)):
        y, kind = down(share), "axis" if share * max(sizes) <= 1 else "grid"
        lines.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        if round(math.log2(share)) % 2 == 0:
            lines.append(_text(_LEFT - 8, y + 4.5, f"{share * 100:.3g}%", "end"))
            lines.append(_text(_WIDTH - _RIGHT + 8, y + 4.5, f"{1 / share:g}", "start"))
    lines += [_text(across(size), top + _PANEL + 17, str(size), "middle") for size in sizes]
    ways = {
        "even": [1 / one.partitions for one in found],
        "whole": [one.whole.busiest for one in found],
        "planned": [one.planned.busiest for one in found],
    }
    for kind, shares in ways.items():
        places = zip(map(across, sizes), map(down, shares), strict=True)
        lines.append(_line(kind, places))
    return lines + _names(
        top,
        [
            ("whole", f"exponent {exponent:g}: every counter whole"),
            ("planned", "with the plan"),
            ("even", "1/n"),
        ],
    )


def _doublings(most: int) -> list[float]:
    return [2.0**-power for power in range(math.ceil(math.log2(most)) + 1)]


def _across(sizes: Sequence[int]) -> Callable[[int], float]:
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    left, width = _LEFT + _EDGE, _WIDTH - _LEFT - _RIGHT - 2 * _EDGE
    return lambda size: round(left + width * (math.log2(size) - low) / max(1.0, high - low), 1)


def _down(sizes: Sequence[int]) -> Callable[[float], float]:
    deepest = math.ceil(math.log2(sizes[-1]))
    return lambda share: -math.log2(share) / deepest * _PANEL


def _names(top: float, names: Iterable[tuple[str, str]]) -> list[str]:
    """The legend above a panel."""
    lines, left = [], float(_LEFT)
    for kind, name in names:
        lines.append(f'<path class="{kind}" d="M{left:.0f} {top - 14:.0f}h22"/>')
        lines.append(_text(left + 28, top - 9.5, name, "start"))
        left += 28 + 6.6 * len(name) + 26
    return lines


def _line(kind: str, points: Iterable[Point]) -> str:
    return f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
