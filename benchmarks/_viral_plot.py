"""A viral counter over time as a plot: its load, its shards, and the busiest partition's share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks._viral_load import Curve
    from benchmarks._viral_seconds import Change, Second

    Place = Callable[[float], float]

_WIDTH, _LEFT, _RIGHT = 820, 84, 24
_TOP, _PANEL, _GAP, _BOTTOM = 74, 150, 62, 44

# The plot has a background of its own, so that it is readable on pages of any colour.
_STYLE = """
  .paper { fill: #ffffff } text { fill: #24292f; font: 13px sans-serif }
  .title { font-size: 15px; font-weight: bold }
  path { fill: none } .grid { stroke: #d0d7de; stroke-width: 1 }
  .axis { stroke: #57606a; stroke-width: 1 } .viral { stroke: #0969da; stroke-width: 2 }
  .even { stroke: #bc4c00; stroke-width: 2; stroke-dasharray: 5 4 }
  .all { stroke: #57606a; stroke-width: 1.5; stroke-opacity: 0.75 }
  .high { fill: #0969da; fill-opacity: 0.08 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .axis { stroke: #8b949e } .viral { stroke: #58a6ff } .even { stroke: #f0883e }
    .all { stroke: #8b949e } .high { fill: #58a6ff; fill-opacity: 0.12 }
  }
"""


class _Scale(NamedTuple):
    """A vertical axis: where a value is, which values have a line, and how they are written."""

    least: float
    greatest: float
    lines: Sequence[float]
    label: Callable[[float], str]
    is_logarithmic: bool = False

    def down(self, value: float) -> float:
        """How far below the panel's top, as a part of its height."""
        low, high, at = self.least, self.greatest, max(self.least, value)
        if self.is_logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (high - at) / (high - low)


def plot(found: Sequence[Second], changes: Sequence[Change], curve: Curve, rate_max: float) -> str:
    """An SVG document: three panels over one axis of seconds."""
    height = _TOP + 3 * (_PANEL + _GAP) - _GAP + _BOTTOM
    last_s = found[-1].at_s + 1
    across = _across(last_s)
    tops = [_TOP + number * (_PANEL + _GAP) for number in range(3)]
    panels = [
        _load(tops[0], found, across, rate_max),
        _shards(tops[1], changes, across, last_s),
        _share(tops[2], found, changes, across, last_s),
    ]
    bands = [_band(top, curve, across) for top in tops]
    growth = curve.high / curve.low
    title = f"A counter whose load grows {growth:.0f}-fold in {curve.rise_s:.0f} s, and falls back"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
            _text(_LEFT, 28, title, "start", "title"),
            *bands,
            *(line for panel in panels for line in panel),
            *_time(tops, last_s, across),
            _text(across(last_s / 2), height - 12, "seconds", "middle"),
            "</svg>\n",
        )
    )


def _load(top: float, found: Sequence[Second], across: Place, rate_max: float) -> list[str]:
    greatest = 10 ** math.ceil(math.log10(max(one.rows for one in found)))
    powers = [10.0**power for power in range(1, round(math.log10(greatest)) + 1)]
    scale = _Scale(10, greatest, powers, lambda rows: f"{rows:,.0f}", is_logarithmic=True)
    threshold = top + _PANEL * scale.down(rate_max)
    return [
        *_frame(top, scale),
        _line("even", [(_LEFT, threshold), (_WIDTH - _RIGHT, threshold)]),
        _line("viral", [(across(s.at_s + 0.5), top + _PANEL * scale.down(s.rows)) for s in found]),
        *_names(top, [("viral", "rows/s of the counter"), ("even", "what one shard may have")]),
    ]


def _shards(top: float, changes: Sequence[Change], across: Place, last_s: float) -> list[str]:
    most = max(change.shards for change in changes)
    doublings = [2.0**power for power in range(max(1, math.ceil(math.log2(most))) + 1)]
    scale = _Scale(1, doublings[-1], doublings, lambda n: f"{n:.0f}", is_logarithmic=True)
    steps = [(across(s), top + _PANEL * scale.down(n)) for s, n in _steps(changes, last_s)]
    return [
        *_frame(top, scale),
        _line("viral", steps),
        *_names(top, [("viral", "shards by the plan")]),
    ]


def _share(
    top: float, found: Sequence[Second], changes: Sequence[Change], across: Place, last_s: float
) -> list[str]:
    scale = _Scale(0, 1, [0, 0.25, 0.5, 0.75, 1], lambda share: f"{share:.0%}")

    def points(shares: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(across(s), top + _PANEL * scale.down(y)) for s, y in shares if not math.isnan(y)]

    return [
        *_frame(top, scale),
        _line("all", points((one.at_s + 0.5, one.share_of_all) for one in found)),
        _line("viral", points((one.at_s + 0.5, one.share) for one in found)),
        _line("even", points((s, 1 / n) for s, n in _steps(changes, last_s))),
        *_names(
            top,
            [
                ("viral", "busiest partition's share of the counter's rows"),
                ("even", "1/n"),
                ("all", "of all counters' rows"),
            ],
        ),
    ]


def _steps(changes: Sequence[Change], last_s: float) -> list[tuple[float, int]]:
    """The corners of a line that is level between changes."""
    ends = [*(change.at_s for change in changes[1:]), last_s]
    return [
        (at_s, change.shards)
        for change, end_s in zip(changes, ends, strict=True)
        for at_s in (change.at_s, end_s)
    ]


def _across(last_s: float) -> Place:
    return lambda at_s: _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(at_s, last_s) / last_s


def _band(top: float, curve: Curve, across: Place) -> str:
    """Where the load is high."""
    left, right = across(curve.calm_s), across(curve.fall_at_s + curve.fall_s)
    place = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{_PANEL}"'
    return f'<rect class="high" {place}/>'


def _frame(top: float, scale: _Scale) -> list[str]:
    lines = []
    for value in scale.lines:
        y = top + _PANEL * scale.down(value)
        kind = "axis" if value == scale.least else "grid"
        lines.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        lines.append(_text(_LEFT - 8, y + 4.5, scale.label(value), "end"))
    return lines


def _names(top: float, names: Iterable[tuple[str, str]]) -> list[str]:
    """The legend above a panel."""
    lines, left = [], float(_LEFT)
    for kind, name in names:
        lines.append(f'<path class="{kind}" d="M{left:.0f} {top - 14:.0f}h22"/>')
        lines.append(_text(left + 28, top - 9.5, name, "start"))
        left += 28 + 6.6 * len(name) + 26
    return lines


def _time(tops: Iterable[float], last_s: float, across: Place) -> list[str]:
    lines = []
    for top in tops:
        for at_s in range(0, int(last_s) + 1, 10):
            x = across(at_s)
            lines.append(f'<path class="axis" d="M{x:.1f} {top + _PANEL:.0f}v4"/>')
            lines.append(_text(round(x, 1), top + _PANEL + 17, str(at_s), "middle"))
    return lines


def _line(kind: str, points: Iterable[tuple[float, float]]) -> str:
    return f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
