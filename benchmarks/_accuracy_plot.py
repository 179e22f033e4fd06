"""The errors of distinct counts as a plot: every seed a dot, within the band that is promised."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks._accuracy_distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._accuracy_distinct import DistinctRow, DistinctTrial

_WIDTH, _LEFT, _RIGHT = 820, 84, 24
_TOP, _PANEL, _GAP, _BOTTOM = 66, 170, 38, 52
_ERRORS_SHOWN = 3.6  # standard errors above and below zero
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# The plot has a background of its own, so that it is readable on pages of any colour.
_STYLE = """
  .paper { fill: #ffffff } text { fill: #24292f; font: 13px sans-serif }
  .title { font-size: 15px; font-weight: bold } .grid { stroke: #d0d7de; stroke-width: 1 }
  .zero { stroke: #57606a; stroke-width: 1 } .band { fill: #0969da; fill-opacity: 0.11 }
  .seed { fill: #0969da; fill-opacity: 0.55 }
  .rms { stroke: #bc4c00; stroke-width: 2; fill: none }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .zero { stroke: #8b949e } .band { fill: #58a6ff; fill-opacity: 0.14 }
    .seed { fill: #58a6ff } .rms { stroke: #f0883e }
  }
"""


def plot(trials: Sequence[DistinctTrial]) -> str:
    """An SVG document: one panel per precision, members on a logarithmic axis."""
    rows = distinct_rows(trials)
    precisions = sorted({row.precision for row in rows})
    height = _TOP + len(precisions) * (_PANEL + _GAP) - _GAP + _BOTTOM
    panels = [
        _panel(
            _TOP + at * (_PANEL + _GAP),
            [row for row in rows if row.precision == precision],
            [one for one in trials if one.precision == precision],
        )
        for at, precision in enumerate(precisions)
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            "<title>Relative error of distinct counts against the number of members</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>',
            *_legend(rows[0].seeds),
            *(line for panel in panels for line in panel),
            _text(middle, height - 12, "members (logarithmic)", "middle"),
            "</svg>\n",
        )
    )


def _legend(seeds: int) -> list[str]:
    return [
        _text(_LEFT, 24, f"Distinct counts: relative error of {seeds} seeds", "start", "title"),
        f'<circle class="seed" cx="{_LEFT + 4}" cy="41" r="3"/>',
        _text(_LEFT + 14, 45, "one seed", "start"),
        f'<path class="rms" d="M{_LEFT + 90} 41h22"/>',
        _text(_LEFT + 118, 45, "root mean square", "start"),
        f'<rect class="band" x="{_LEFT + 244}" y="34" width="22" height="14"/>',
        f'<rect class="band" x="{_LEFT + 244}" y="37.5" width="22" height="7"/>',
        _text(_LEFT + 272, 45, "promised: one and two standard errors", "start"),
    ]


def _panel(top: int, rows: Sequence[DistinctRow], trials: Sequence[DistinctTrial]) -> list[str]:
    promised = rows[0].promised
    last = max(row.members for row in rows)

    def across(members: float) -> float:
        room = _WIDTH - _LEFT - _RIGHT - 40
        return _LEFT + 20 + room * math.log10(members) / max(1.0, math.log10(last))

    def down(error: float) -> float:
        within = max(-_ERRORS_SHOWN, min(_ERRORS_SHOWN, error / promised))
        return top + _PANEL / 2 * (1 - within / _ERRORS_SHOWN)

    right = _WIDTH - _RIGHT
    lines = [
        f'<path class="band" d="M{_LEFT} {down(errors):.1f}H{right}V{down(-errors):.1f}H{_LEFT}z"/>'
        for errors in (promised, 2 * promised)
    ]
    for errors in (-2, -1, 0, 1, 2):
        y = down(errors * promised)
        kind = "grid" if errors else "zero"
        lines.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{right}"/>')
        label = f"{errors * promised:+.1%}" if errors else "0"
        lines.append(_text(_LEFT - 8, y + 4.5, label, "end"))
    for row in rows:
        x = across(row.members)
        lines.append(f'<path class="grid" d="M{x:.1f} {top + _PANEL}v5"/>')
        power = str(round(math.log10(row.members))).translate(_SUPERSCRIPTS)
        lines.append(_text(x, top + _PANEL + 19, f"10{power}", "middle"))
    lines += [
        f'<circle class="seed" cx="{across(one.members):.1f}" cy="{down(one.off):.1f}" r="3"/>'
        for one in trials
    ]
    curve = "L".join(f"{across(row.members):.1f} {down(row.root_mean_square):.1f}" for row in rows)
    lines.append(f'<path class="rms" d="M{curve}"/>')
    lines.append(_text(right - 8, top + 15, f"precision {rows[0].precision}", "end"))
    y = top + _PANEL / 2
    turned = f'<text transform="translate(20 {y:.1f}) rotate(-90)" text-anchor="middle">'
    return [*lines, f"{turned}relative error</text>"]


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
