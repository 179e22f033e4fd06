"""Commands to strict counters over HTTP: what is left out is filled in, what is wrong refused."""

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from pipeline.producer import Producer
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.strict.client import StrictClient
from pipeline.strict.state import Decision
from schemas.strict import Command
from tests.unit.web.app import Site, site_of
from tests.unit.web.world import World

API = "/api/v1/counters/api:ada"
ACQUIRE = f"{API}/acquire"
RULES = CountingRules(
    families={"api": FamilyRules(strict=StrictRules(limit=100, window_ms=60_000))}
)


class Deciders:
    """A StrictClient that accepts everything and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Command] = []

    async def ask(self, command: Command, _wait_s: float) -> Decision:
        self.asked.append(command)
        return Decision(accepted=True, remaining=1)


def strict_site(world: World) -> tuple[Site, Deciders]:
    site, deciders = site_of(world), Deciders()
    site.services.strict = cast("StrictClient", deciders)
    site.services._producer = cast("Producer", SimpleNamespace(rules=RULES))
    return site, deciders


async def sent(site: Site, path: str, fields: dict[str, Any]) -> httpx.Response:
    return await site.client.post(path, json=fields)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [(0, "limit: not from 1"), (False, "limit: not a whole number"), ("", "limit: not a whole")],
)
async def test_a_limit_that_makes_no_sense_is_refused_and_not_replaced_by_the_familys(
    world: World, limit: object, reason: str
) -> None:
    site, deciders = strict_site(world)
    found = await sent(site, ACQUIRE, {"limit": limit, "id": "a"})
    assert (found.status_code, deciders.asked) == (422, [])
    assert found.json()["error"].startswith(reason)


@pytest.mark.parametrize("fields", [{}, {"limit": None}])
async def test_a_limit_that_is_left_out_is_the_familys(
    world: World, fields: dict[str, Any]
) -> None:
    site, deciders = strict_site(world)
    assert (await sent(site, ACQUIRE, fields)).status_code == 200
    assert [(one.limit, one.window_ms) for one in deciders.asked] == [(100, 60_000)]


@pytest.mark.parametrize("path", [ACQUIRE, f"{API}/decrement", f"{API}/increment"])
@pytest.mark.parametrize(
    ("id_", "reason"),
    [("", "id: empty"), (0, "id: not text"), (False, "id: not text"), ([], "id: not text")],
)
async def test_an_id_that_is_none_is_refused_and_no_other_is_made(
    world: World, path: str, id_: object, reason: str
) -> None:
    site, deciders = strict_site(world)
    found = await sent(site, path, {"id": id_})
    assert (found.status_code, deciders.asked) == (422, [])
    assert found.json()["error"].startswith(reason)


@pytest.mark.parametrize("fields", [{}, {"id": None}])
async def test_an_id_that_is_left_out_is_made_and_told(
    world: World, fields: dict[str, Any]
) -> None:
    site, deciders = strict_site(world)
    found = await sent(site, f"{API}/decrement", fields)
    assert found.status_code == 200
    assert found.json()["id"] == deciders.asked[0].id
    assert len(deciders.asked[0].id) == 32
