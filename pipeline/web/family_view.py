"""What the dashboard shows of a family: who leads, who trends, how that changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import NothingThereError
from pipeline.reads import regions, trends
from pipeline.reads.family_windows import Period
from pipeline.reads.moves import moves
from pipeline.reads.recent_minutes import ranks_before, recent_minutes
from pipeline.reads.top import ALL_REGIONS, top
from pipeline.web.slower import Slower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import Reads
    from pipeline.web.services import Services

TOP_K = 20
HOUR_MS = 3_600_000
HOUR_MINUTES = 60

MOVED_MINUTES = 5
"""A place is compared with that of so many minutes ago."""

SLOWLY_S = 5.0
"""How often minutes and trends are asked for: these change once a minute, and cost more."""


class FamilyView:
    """One family in one region. Owned by one event loop."""

    def __init__(self, services: Services, family: str, region: str) -> None:
        self._services = services
        self._family = family
        self._region = region
        self._leaders: Sequence[str] = ()
        self._slow = Slower(self._ask_slowly, services.clock, SLOWLY_S)

    async def __call__(self) -> dict[str, Any]:
        """The ranking of the last hour with minutes and earlier places, trends, who came and went.

        Raises NothingThereError for a family nobody counted, TryAgainError.
        """
        question = partial(top, family=self._family, period=Period(), k=TOP_K, region=self._region)
        found = (await self._services.asking.ask(question)).document()
        self._leaders = [one["counter"] for one in found["top"]]
        slow = await self._slow()
        minutes, before = slow["minutes"], slow["before"]
        for one in found["top"]:
            one["minutes"] = minutes.get(one["counter"])
            one["rank_before"] = before.get(one["counter"])
        return {**found, **{name: slow[name] for name in ("trending", "moves", "regions")}}

    async def _ask_slowly(self) -> dict[str, Any]:
        return await self._services.asking.ask(partial(self._slowly, counters=list(self._leaders)))

    def _slowly(self, reads: Reads, counters: list[str]) -> dict[str, Any]:
        region = None if self._region == ALL_REGIONS else self._region
        minutes = recent_minutes(reads, counters, HOUR_MINUTES + MOVED_MINUTES, region)
        question = trends.Question(self._family, TOP_K, self._region, kinds=("rising", "new"))
        return {
            "before": ranks_before(minutes, MOVED_MINUTES),
            "minutes": {name: one[MOVED_MINUTES:] for name, one in minutes.items()},
            "trending": _trending(reads, question),
            "moves": [one.document() for one in moves(reads, self._family, self._region)],
            "regions": regions.of_family(reads, self._family, reads.now_ms() - HOUR_MS),
        }


def _trending(reads: Reads, question: trends.Question) -> dict[str, Any] | None:
    try:
        return trends.trending(reads, question).document()
    except NothingThereError:
        return None
