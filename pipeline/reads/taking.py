"""Sums a span from the windows that were read, and says where finer ones are gone. Pure.

A window is the greater of what was rolled up and what finer windows add up to. So finer ones that
add up to less are gone in part, whoever dropped them; then the window itself is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.reads.spans import FINER, Span, window_of, window_text
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.reads.spans import Plan
    from schemas.rules import Grain

Values = tuple[int, int, int]
"""Added, taken away, and duplicates."""

Window = tuple["Grain", int]
"""A grain and when the window begins."""

NOUNS: dict[Grain, str] = {"1m": "minute", "1h": "hour", "1d": "day"}


@dataclass(slots=True)
class Taken:
    """The windows that add up to the span, none of it twice.

    `coarse` has those before the split that were to be divided, but whose finer windows are gone.
    """

    windows: dict[Window, Values] = field(default_factory=dict)
    coarse: set[Window] = field(default_factory=set)


def take(plan: Plan, windows: Mapping[Window, Values]) -> Taken:
    """What of the windows that were read adds up to the plan's span."""
    inside: dict[Window, list[Window]] = {}
    for grain, at_ms in windows:
        for coarser, finer in FINER.items():
            if grain == finer:
                inside.setdefault((coarser, window_of(at_ms, coarser)), []).append((grain, at_ms))
    taken = Taken()
    until_ms = (plan.span or Span()).until_ms
    for window in sorted(windows):
        grain, at_ms = window
        if plan.split_ms <= at_ms < until_ms:
            taken.windows[window] = windows[window]
        elif grain == "1d":
            _take(window, plan, windows, inside, taken)
    return taken


def _take(
    window: Window,
    plan: Plan,
    windows: Mapping[Window, Values],
    inside: Mapping[Window, list[Window]],
    taken: Taken,
) -> None:
    (grain, at_ms), span = window, plan.span or Span()
    if at_ms + GRAIN_MS[grain] <= span.since_ms or at_ms >= span.until_ms:
        return
    if grain in FINER and (_is_cut(window, span) or _hides(grain, plan.by)):
        finer = inside.get(window, [])
        if total(windows[each] for each in finer) == windows[window]:
            for each in finer:
                _take(each, plan, windows, inside, taken)
            return
        taken.coarse.add(window)
    if at_ms >= span.since_ms:
        taken.windows[window] = windows[window]


def total(values: Iterable[Values]) -> Values:
    """Values added up."""
    p = n = duplicates = 0
    for more_p, more_n, more_duplicates in values:
        p, n, duplicates = p + more_p, n + more_n, duplicates + more_duplicates
    return p, n, duplicates


def remarks(plan: Plan, coarse: Iterable[Window], forgotten_ms: int) -> list[str]:
    """What a reader of the sum should know of it, in sentences.

    `forgotten_ms` is before when days are gone as well; 0 if none are.
    """
    return [*_remarks(plan, sorted(coarse, key=lambda window: window[1]), forgotten_ms)]


def _remarks(plan: Plan, coarse: list[Window], forgotten_ms: int) -> Iterator[str]:
    span = plan.span or Span()
    for grain, at_ms in coarse:
        if _is_cut((grain, at_ms), span):
            what = (
                "all of it is summed, as it begins in"
                if at_ms >= span.since_ms
                else "it is left out, as it begins before"
            )
            yield (
                f"{NOUNS[FINER[grain]]}s of the {NOUNS[grain]} from {window_text(at_ms)} are gone: "
                f"{what} the time asked for"
            )
    unlisted = [at_ms + GRAIN_MS[grain] for grain, at_ms in coarse if _hides(grain, plan.by)]
    if unlisted and plan.by:
        yield (
            f"{NOUNS[plan.by]}s before {window_text(max(unlisted))} are gone, all or some: they "
            "are in the total, but not listed"
        )
    if span.since_ms < forgotten_ms:
        yield (
            f"days before {window_text(forgotten_ms)} are gone, all or some: only the total of all "
            "time has them"
        )


def _is_cut(window: Window, span: Span) -> bool:
    """Whether the span begins or ends inside of the window."""
    grain, at_ms = window
    return any(at_ms < bound < at_ms + GRAIN_MS[grain] for bound in (span.since_ms, span.until_ms))


def _hides(grain: Grain, by: Grain | None) -> bool:
    return by is not None and GRAIN_MS[by] < GRAIN_MS[grain]
