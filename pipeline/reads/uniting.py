"""Which windows of members are united for a span, by what is there. Pure.

Members of a day are those of its hours, so uniting both does no harm: every window is taken that
lies in the span, of whatever grain. One that the span cuts is taken as a whole, since its members
cannot be told apart, unless finer windows of it are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.reads.spans import FOREVER_MS, Span, window_of, window_text
from pipeline.reads.taking import NOUNS
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pipeline.reads.taking import Window
    from schemas.rules import Grain


@dataclass(frozen=True, slots=True)
class Union:
    """The windows that are united, by counter, and cut ones that finer windows stand for."""

    taken: Mapping[str, frozenset[Window]]
    replaced: Mapping[str, frozenset[Window]]

    @property
    def span(self) -> Span | None:
        """From when until when the windows are; None if there are none."""
        every = frozenset[tuple["Grain", int]]().union(*self.taken.values())
        if not every:
            return None
        return Span(min(at for _, at in every), max(at + GRAIN_MS[grain] for grain, at in every))


def around(span: Span) -> Span:
    """The whole days in which a span is: where windows that matter to it may begin."""
    until_ms = min(-(-span.until_ms // GRAIN_MS["1d"]) * GRAIN_MS["1d"], FOREVER_MS)
    return Span(window_of(span.since_ms, "1d"), until_ms)


def unite(there: Mapping[str, Collection[Window]], span: Span) -> Union:
    """What to unite for a span, given all windows of the days in which it is."""
    taken, replaced = {}, {}
    for counter, windows in there.items():
        inside = {window for window in windows if _overlaps(window, span)}
        cut = {window for window in inside if is_cut(window, span)}
        replaced[counter] = frozenset(window for window in cut if _has_finer(window, windows))
        taken[counter] = frozenset(inside - replaced[counter])
    return Union(taken, replaced)


def remarks(union: Union, span: Span, by: Grain | None) -> Iterator[str]:
    """What a reader of the number should know of its windows, in sentences."""
    every = sorted(frozenset[tuple["Grain", int]]().union(*union.taken.values()))
    for grain, at_ms in every:
        # A minute that is cut needs no sentence: from when on windows are united is told anyway.
        if grain != "1m" and is_cut((grain, at_ms), span):
            yield (
                f"the {NOUNS[grain]} from {window_text(at_ms)} is united as a whole: finer windows "
                "of it are not kept"
            )
    unlisted = [] if by is None else _unlisted(union, by)
    if by and unlisted:
        yield (
            f"{NOUNS[by]}s before {window_text(max(unlisted))} are not kept, all or some: their "
            "members are in the number, but not listed"
        )


def is_cut(window: Window, span: Span) -> bool:
    """Whether the span begins or ends inside of the window."""
    grain, at_ms = window
    return any(at_ms < bound < at_ms + GRAIN_MS[grain] for bound in (span.since_ms, span.until_ms))


def _overlaps(window: Window, span: Span) -> bool:
    grain, at_ms = window
    return at_ms + GRAIN_MS[grain] > span.since_ms and at_ms < span.until_ms


def _has_finer(window: Window, windows: Collection[Window]) -> bool:
    grain, at_ms = window
    return any(
        GRAIN_MS[finer] < GRAIN_MS[grain] and window_of(inner_ms, grain) == at_ms
        for finer, inner_ms in windows
    )


def _unlisted(union: Union, by: Grain) -> list[int]:
    """When windows end that are coarser than `by` and have none of it inside."""
    ends = []
    for windows in union.taken.values():
        listed = [at_ms for grain, at_ms in windows if GRAIN_MS[grain] <= GRAIN_MS[by]]
        for grain in ("1d", "1h"):
            within = {window_of(at_ms, grain) for at_ms in listed}
            ends += [
                at_ms + GRAIN_MS[grain]
                for other, at_ms in windows
                if other == grain and GRAIN_MS[grain] > GRAIN_MS[by] and at_ms not in within
            ]
    return ends
