"""Every number that must come of the increments, added up in the plainest way. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.kit.truth.kinds import MEMBERS_BY_MINUTES, family_of
from tests.kit.truth.record import Document

GRAINS_S = {"1m": 60, "1h": 3_600, "1d": 86_400}
ALL = "*"
"""All regions together."""

EVER = -1
"""The window of all windows together."""

Place = tuple[str, str, int]
"""Counter, region (or all of them), and the window's start in seconds."""


class Adjustment(NamedTuple):
    """A correction of a window, by its start in seconds, or of the total alone: no grain."""

    counter: str
    region: str
    by: int
    grain: str | None
    start_s: int


class Expected:
    """What each of these increments adds, once, though its id be there twice; and adjustments.

    Those are in the window they are of, in all windows that contain it, and in the total; never
    among members. Not of sketched families, whose views show them otherwise.
    """

    def __init__(
        self, increments: Iterable[Document], adjustments: Iterable[Adjustment] = ()
    ) -> None:
        self._adjustments = list(adjustments)
        self._minutes: dict[Place, int] = defaultdict(int)
        self._members: dict[Place, set[str]] = defaultdict(set)
        ids: set[tuple[str, str]] = set()
        for one in increments:
            if "id" in one:
                if (one["counter"], one["id"]) in ids:
                    continue
                ids.add((one["counter"], one["id"]))
            place = (one["counter"], one["region"], one["at"] // 60_000 * 60)
            self._minutes[place] += one["delta"]
            if one["delta"] > 0 and "member" in one:
                self._members[place].add(one["member"])

    def counters(self) -> list[str]:
        return sorted({counter for counter, _, _, _ in self._parts()})

    def families(self) -> list[str]:
        return sorted({counter.partition(":")[0] for counter in self.counters()})

    def regions(self) -> list[str]:
        return sorted({region for _, region, _, _ in self._parts()})

    def totals(self) -> dict[tuple[str, ...], int]:
        sums: dict[tuple[str, ...], int] = defaultdict(int)
        for counter, _, _, count in self._parts():
            sums[counter,] += count
        return dict(sums)

    def totals_by_region(self) -> dict[Place, int]:
        """Of every counter in every region there is, and in all of them (`*`): 0 if nothing."""
        regions = (ALL, *self.regions())
        sums: dict[Place, int] = {
            (counter, region, EVER): 0 for counter in self.counters() for region in regions
        }
        for counter, region, _, count in self._parts():
            sums[counter, region, EVER] += count
            sums[counter, ALL, EVER] += count
        return sums

    def counts(self, grain: str) -> dict[Place, int]:
        """By counter, region and window, and by counter and window for all regions (`*`)."""
        sums: dict[Place, int] = defaultdict(int)
        for counter, region, at_s, count in self._parts(grain):
            start_s = at_s // GRAINS_S[grain] * GRAINS_S[grain]
            sums[counter, region, start_s] += count
            sums[counter, ALL, start_s] += count
        return dict(sums)

    def members(self, grain: str) -> dict[Place, set[str]]:
        """Who added something, by the same places as counts; by minutes where those are kept."""
        found: dict[Place, set[str]] = defaultdict(set)
        for (counter, region, minute_s), members in self._members.items():
            if grain == "1m" and family_of({"counter": counter}) not in MEMBERS_BY_MINUTES:
                continue
            start_s = minute_s // GRAINS_S[grain] * GRAINS_S[grain]
            found[counter, region, start_s] |= members
            found[counter, ALL, start_s] |= members
        return dict(found)

    def members_ever(self) -> dict[Place, set[str]]:
        """Who added something to a counter at any time, in each region and in all."""
        found: dict[Place, set[str]] = defaultdict(set)
        for (counter, region, _), members in self._members.items():
            found[counter, region, EVER] |= members
            found[counter, ALL, EVER] |= members
        return dict(found)

    def rankings(self, grain: str) -> dict[Place, list[tuple[str, int]]]:
        """Counters with what they count, the greatest first, by family, region and window.

        Of equal counts the first by name leads; what is not above zero has no place, nor has the
        sum of a whole family, whose key is empty. Where nothing has a place the ranking is empty.
        """
        return _ranked(self.counts(grain))

    def newest_rankings(self, grain: str, now_s: int) -> dict[Place, list[tuple[str, int]]]:
        """Of each family the one of its newest window, which is never one ahead of the clock."""
        newest: dict[str, int] = defaultdict(int)
        for counter, _, at_s, _ in self._parts("1d"):
            family = family_of({"counter": counter})
            newest[family] = max(newest[family], min(at_s, now_s))
        starts = {one: at_s // GRAINS_S[grain] * GRAINS_S[grain] for one, at_s in newest.items()}
        rankings = self.rankings(grain)
        return {
            place: ranking for place, ranking in rankings.items() if place[2] == starts[place[0]]
        }

    def last_rankings(self, last_s: int, now_s: int) -> dict[Place, list[tuple[str, int]]]:
        """By all minutes that began in the last seconds, or later; their window is EVER."""
        sums: dict[Place, int] = defaultdict(int)
        for counter, region, minute_s, count in self._parts("1m"):
            if minute_s > now_s - last_s:
                sums[counter, region, EVER] += count
                sums[counter, ALL, EVER] += count
        return _ranked(sums)

    def _parts(self, grain: str | None = None) -> Iterator[tuple[str, str, int, int]]:
        """Counter, region, when, and how much: of windows no longer than these, or of all time."""
        for (counter, region, minute_s), count in self._minutes.items():
            yield counter, region, minute_s, count
        for one in self._adjustments:
            of_window_s = GRAINS_S.get(one.grain or "")
            if grain is None or (of_window_s and of_window_s <= GRAINS_S[grain]):
                yield one.counter, one.region, one.start_s, one.by


def _ranked(counts: Mapping[Place, int]) -> dict[Place, list[tuple[str, int]]]:
    found: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    for (counter, region, start_s), count in counts.items():
        ranking = found[family_of({"counter": counter}), region, start_s]
        if count > 0 and not counter.endswith(":"):
            ranking.append((counter, count))
    for ranking in found.values():
        ranking.sort(key=lambda one: (-one[1], one[0].encode()))
    return dict(found)
