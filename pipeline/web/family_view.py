"""What the dashboard shows of a family: who leads, who trends, how that changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import NothingThereError
from pipeline.reads import regions, trends
from pipeline.reads.family_windows import Period
from pipeline.reads.moves import moves
from pipeline.reads.recent_minutes import ranks_before, recent_minutes
from pipeline.reads.top import ALL_REGIONS, greatest, prepared
from pipeline.web.slower import Slower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import Reads
    from pipeline.reads.top import Prepared
    from pipeline.web.services import Services

TOP_K = 20
HOUR_MS = 3_600_000
HOUR_MINUTES = 60

MOVED_MINUTES = 5
"""A place is compared with that of so many minutes ago."""

POSITIONS_AGE_S = 0.5
"""How old positions may be: all views share one look at them."""

SLOWLY_S = 15.0
"""How often minutes, trends and what a ranking is made of are asked for. These change once a
minute, and take a dozen queries; the ranking itself takes one, each second."""


class FamilyView:
    """One family in one region. Owned by one event loop."""

    def __init__(self, services: Services, family: str, region: str) -> None:
        self._services = services
        self._family = family
        self._region = region
        self._leaders: Sequence[str] = ()
        clock = services.clock
        self._ranking: Slower[Prepared] = Slower(self._prepare, clock, SLOWLY_S)
        self._slow: Slower[dict[str, Any]] = Slower(self._ask_slowly, clock, SLOWLY_S)

    async def __call__(self) -> dict[str, Any]:
        """The ranking of the last hour with minutes and earlier places, trends, who came and went.

        Raises NothingThereError for a family nobody counted, TryAgainError.
        """
        question = await self._ranking()
        # Before the ranking: what is read later has more.
        look = await self._services.flushed.look(POSITIONS_AGE_S)
        ask = partial(greatest, asked=question, positions=look.positions, k=TOP_K)
        found = (await self._services.asking.ask(ask)).document()
        self._leaders = [one["counter"] for one in found["top"]]
        slow = await self._slow()
        minutes, before = slow["minutes"], slow["before"]
        for one in found["top"]:
            one["minutes"] = minutes.get(one["counter"])
            one["rank_before"] = before.get(one["counter"])
        return {**found, **{name: slow[name] for name in ("trending", "moves", "regions")}}

    async def _prepare(self) -> Prepared:
        look = await self._services.flushed.look(POSITIONS_AGE_S)
        return await self._services.asking.ask(
            partial(
                prepared,
                family=self._family,
                period=Period(),
                region=self._region,
                positions=look.positions,
            )
        )

    async def _ask_slowly(self) -> dict[str, Any]:
        return await self._services.asking.ask(partial(self._slowly, counters=list(self._leaders)))

    def _slowly(self, reads: Reads, counters: list[str]) -> dict[str, Any]:
        region = None if self._region == ALL_REGIONS else self._region
        question = trends.Question(self._family, TOP_K, self._region, kinds=("rising", "new"))
        trending = _trending(reads, question)
        names = dict.fromkeys([*counters, *(one["counter"] for one in _rows(trending))])
        minutes = recent_minutes(reads, list(names), HOUR_MINUTES + MOVED_MINUTES, region)
        for one in _rows(trending):
            one["minutes"] = minutes[one["counter"]][MOVED_MINUTES:]
        leading = {name: minutes[name] for name in counters}
        return {
            "before": ranks_before(leading, MOVED_MINUTES),
            "minutes": {name: one[MOVED_MINUTES:] for name, one in leading.items()},
            "trending": trending,
            "moves": [one.document() for one in moves(reads, self._family, self._region)],
            "regions": regions.of_family(reads, self._family, reads.now_ms() - HOUR_MS),
        }


def _trending(reads: Reads, question: trends.Question) -> dict[str, Any] | None:
    try:
        return trends.trending(reads, question).document()
    except NothingThereError:
        return None


def _rows(trending: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [] if trending is None else trending["trending"]
