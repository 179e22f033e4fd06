"""What open pages cost ClickHouse: the same, whether one follows a view or very many."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pipeline.clock import SystemClock
from pipeline.reads.reads import Reads
from pipeline.web.family_view import FamilyView
from pipeline.web.hub import View
from pipeline.web.services import Services
from schemas.settings import load_settings
from tests.kit.tally import RunningTally
from tests.kit.waiting import waits

FOLLOWERS = 200
SECONDS = 5
SHARED = ("FROM tally.positions", "tally.final_days", "FROM tally.adjustments", "FROM tally.rules")
"""How far shards are, what is rolled up for good, whether anything is adjusted, and the rules:
asked for once, whatever is followed."""

RANKING = "ORDER BY count DESC"
FAMILY = View("family", "*", "hashtag")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each query was asked for, by the process of this test."""
    found: Counter[str] = Counter()
    rows = Reads.rows

    def counted(
        reads: Reads, query: str, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Sequence[Any]]:
        found[query] += 1
        return rows(reads, query, parameters)

    monkeypatch.setattr(Reads, "rows", counted)
    return found


def most(asked: Counter[str], part: str) -> int:
    """How often the query with this part was asked for; the copy is since others ask meanwhile."""
    return max((times for query, times in asked.copy().items() if part in query), default=0)


async def test_a_family_costs_a_query_a_second_beside_the_look_that_all_views_share(
    tally: RunningTally, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in tally.env.items():
        monkeypatch.setenv(name, value)
    services = Services(load_settings(), SystemClock())
    followers = [
        services.hub.follow({FAMILY: FamilyView(services, "hashtag", "*")})
        for _ in range(FOLLOWERS)
    ]
    try:
        async with asyncio.timeout(30):
            news = await asyncio.gather(*(anext(one) for one in followers))
        assert all(one is not None and not one.is_error for one in news)
        asked.clear()
        began_s = time.monotonic()
        await asyncio.sleep(SECONDS)
        for pause_s in waits(lambda: most(asked, RANKING) > 1, "the ranking is asked for twice"):
            await asyncio.sleep(pause_s)
    finally:
        for one in followers:
            await one.aclose()
        await services.hub.close()
        services.asking.close()
    # By the clock: on a busy machine it took longer, and the views were asked for meanwhile.
    times = time.monotonic() - began_s + 1
    [ranking] = [query for query in asked if RANKING in query]
    others = [query for query in asked if query != ranking]
    assert all(any(name in query for name in SHARED) for query in others), asked
    assert 1 < asked[ranking] <= times, asked
    assert sum(asked.values()) - asked[ranking] <= len(SHARED) * times, asked
