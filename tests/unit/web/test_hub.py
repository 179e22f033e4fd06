"""Views that many follow are asked for once, and everybody hears the newest."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from pipeline.errors import TryAgainError, UncountedFamilyError
from pipeline.metrics.meter import UNMEASURED
from pipeline.web import hub as hub_module
from pipeline.web.hub import FOLLOWERS_MAX, VIEWS_MAX, Hub, News, View
from tests.unit.web.world import settled

LIKES = View("counter", "*", "likes:a")


class Shown:
    """What a view shows, and how often it was asked for."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"total": 1, "staleness_ms": 0}
        self.error: Exception | None = None
        self.asked = 0

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        self.document["staleness_ms"] += 7
        return dict(self.document)


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "EVERY_S", 0.02)


Following = AsyncGenerator[News | None]


async def heard(following: Following) -> Any:
    news = await asyncio.wait_for(anext(following), 5)
    assert news is not None
    return news.is_error, msgspec.json.decode(news.body)


async def total(following: Following) -> Any:
    is_error, document = await heard(following)
    assert not is_error
    return document["total"]


async def test_a_thousand_followers_of_one_view_are_one_question_at_a_time(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "EVERY_S", 60.0)
    hub = Hub(UNMEASURED)
    followers = [hub.follow({LIKES: shown}) for _ in range(1000)]
    assert await asyncio.gather(*map(total, followers)) == [1] * 1000
    assert shown.asked == 1
    for one in followers:
        await one.aclose()


async def test_a_view_is_told_when_it_changes_but_not_that_it_grew_older(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "QUIET_S", 0.2)
    hub = Hub(UNMEASURED)
    following = hub.follow({LIKES: shown})
    assert await total(following) == 1
    assert await asyncio.wait_for(anext(following), 5) is None
    assert shown.asked > 2
    shown.document["total"] = 2
    assert await total(following) == 2
    await following.aclose()


async def test_who_joins_later_is_told_at_once_what_the_view_shows(shown: Shown) -> None:
    hub = Hub(UNMEASURED)
    first, later = (hub.follow({LIKES: shown}) for _ in range(2))
    await total(first)
    asked = shown.asked
    assert await total(later) == 1
    assert shown.asked == asked
    await first.aclose()
    await later.aclose()


async def test_a_slow_follower_misses_what_was_between_and_hears_the_newest(shown: Shown) -> None:
    hub = Hub(UNMEASURED)
    slow, quick = (hub.follow({LIKES: shown}) for _ in range(2))
    await total(slow)
    await total(quick)
    for number in range(2, 7):
        shown.document["total"] = number
        assert await total(quick) == number
    found = [await total(slow)]
    while found[-1] != 6:
        found.append(await total(slow))
    assert len(found) <= 2
    await slow.aclose()
    await quick.aclose()


async def test_nobody_asks_when_the_last_follower_has_left(shown: Shown) -> None:
    hub = Hub(UNMEASURED)
    following = hub.follow({LIKES: shown})
    await total(following)
    await following.aclose()
    await settled()
    asked = shown.asked
    await asyncio.sleep(0.1)
    assert shown.asked == asked


async def test_trouble_and_bugs_are_news_and_asking_goes_on(
    shown: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(UNMEASURED)
    following = hub.follow({LIKES: shown})
    await total(following)
    shown.error = TryAgainError("away")
    assert await heard(following) == (True, {"error": "away"})
    shown.error = ValueError("secret")
    is_error, document = await heard(following)
    assert is_error
    assert "secret" not in document["error"]
    assert "cannot be asked for" in caplog.text
    shown.error = None
    assert await total(following) == 1
    await following.aclose()


async def test_views_that_differ_in_region_or_kind_are_different_views() -> None:
    hub = Hub(UNMEASURED)
    shown = {
        View("counter", "eu x:y", "a:b"): Shown(),
        View("counter", "eu", "x:y a:b"): Shown(),
        View("top", "eu", "x"): Shown(),
    }
    following = hub.follow(shown)
    for _ in shown:
        await total(following)
    assert [one.asked > 0 for one in shown.values()] == [True] * 3
    await following.aclose()


async def test_too_many_followers_or_views_are_refused_before_an_answer_begins(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (VIEWS_MAX, FOLLOWERS_MAX) == (200, 5_000)
    monkeypatch.setattr(hub_module, "VIEWS_MAX", 2)
    monkeypatch.setattr(hub_module, "FOLLOWERS_MAX", 2)
    hub = Hub(UNMEASURED)
    views = {View("counter", "*", f"likes:{number}"): shown for number in range(3)}
    with pytest.raises(TryAgainError, match="too many follow"):
        hub.check_room(views)
    followers = [hub.follow({LIKES: shown}) for _ in range(2)]
    await asyncio.gather(*map(total, followers))
    with pytest.raises(TryAgainError, match="too many follow"):
        hub.check_room({LIKES: shown})
    await followers[0].aclose()
    hub.check_room({LIKES: shown})
    await followers[1].aclose()


async def test_closing_ends_what_everybody_follows(shown: Shown) -> None:
    hub = Hub(UNMEASURED)
    following = hub.follow({LIKES: shown})
    await total(following)
    await hub.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(following), 5)
    with pytest.raises(TryAgainError):
        hub.check_room({LIKES: shown})
    await hub.close()


async def test_an_error_of_a_view_names_no_families_that_were_not_asked_for(shown: Shown) -> None:
    shown.error = UncountedFamilyError("nope", "there are salaries")
    following = Hub(UNMEASURED).follow({LIKES: shown})
    is_error, document = await heard(following)
    assert is_error
    assert document["error"] == (
        "nothing of a family 'nope' was ever counted; /api/v1/families lists those you may read"
    )
    await following.aclose()
