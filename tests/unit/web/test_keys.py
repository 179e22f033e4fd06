"""All counters of one key: in which families, and how often these are asked for."""

import asyncio

import httpx

from pipeline.access.grant import Rights
from pipeline.errors import TryAgainError
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.web.known_families import AGE_S
from tests.unit.web.app import site_of
from tests.unit.web.test_answers import token_access
from tests.unit.web.world import World

KEY = "/api/v1/keys/post-42"


def counters(found: httpx.Response) -> list[str]:
    assert found.status_code == 200, found.text
    return [one["counter"] for one in found.json()["counters"]]


async def test_families_are_asked_for_now_and_then_however_many_ask_for_keys(
    world: World,
) -> None:
    world.families, world.values = ["likes", "views"], {"likes:post-42": 3, "views:post-42": 0}
    site = site_of(world)
    found = await asyncio.gather(*(site.client.get(KEY) for _ in range(5)))
    assert [counters(one) for one in found] == [["likes:post-42"]] * 5
    assert world.listed == 1
    world.families, world.values["new:post-42"] = ["likes", "new"], 1
    world.clock.advance(AGE_S + 1)
    assert counters(await site.client.get(KEY)) == ["likes:post-42", "new:post-42"]
    assert world.listed == 2


async def test_strict_families_are_among_them_although_nothing_of_them_is_in_cells(
    world: World,
) -> None:
    world.applied = CountingRules(
        families={"stock": FamilyRules(strict=StrictRules()), "views": FamilyRules()}
    )
    world.families, world.values = ["likes"], {"likes:post-42": 3, "stock:post-42": 7}
    site = site_of(world)
    assert counters(await site.client.get(KEY)) == ["likes:post-42", "stock:post-42"]
    # The dashboard shows rankings of these, and a strict family has none.
    assert (await site.client.get("/api/v1/families")).json() == {"families": ["likes"]}


async def test_names_that_are_kept_are_told_to_each_by_their_own_rights(world: World) -> None:
    world.families = ["likes", "salaries"]
    world.values = {"likes:post-42": 3, "salaries:post-42": 9}
    access, token = token_access(world, Rights(read=frozenset({"likes"})))
    site = site_of(world, access)
    headers = {"Authorization": f"Bearer {token}"}
    for _ in range(2):
        assert counters(await site.client.get(KEY, headers=headers)) == ["likes:post-42"]


async def test_a_question_for_families_that_failed_is_asked_again(world: World) -> None:
    world.families, world.values = ["likes"], {"likes:post-42": 3}
    site = site_of(world)
    world.error = TryAgainError("away")
    assert (await site.client.get(KEY)).status_code == 503
    world.error = None
    assert counters(await site.client.get(KEY)) == ["likes:post-42"]
