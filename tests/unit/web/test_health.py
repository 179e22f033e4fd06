"""What is told of health, to whom: with tokens, only whoever may read everything hears names."""

from types import SimpleNamespace
from typing import cast

import pytest

from pipeline.access.grant import Rights
from pipeline.errors import TallyError, TryAgainError
from pipeline.web.status import StatusWatch
from tests.unit.web.app import Site, site_of
from tests.unit.web.test_answers import token_access
from tests.unit.web.world import World

PROBLEM = "salaries is capped"


class Watch:
    """A StatusWatch with one problem, or an error."""

    def __init__(self, error: TallyError | None = None) -> None:
        self.error = error

    async def now(self) -> SimpleNamespace:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(healthy=False, problems=[PROBLEM], remarks=[])


def sick(site: Site, error: TallyError | None = None) -> Site:
    site.services.status = cast("StatusWatch", Watch(error))
    return site


@pytest.mark.parametrize("error", [None, TryAgainError("Kafka at kafka.inside:9092 is away")])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nope"}, None])
async def test_with_tokens_whoever_may_not_read_all_hears_only_whether_it_is_well(
    world: World, headers: dict[str, str] | None, error: TallyError | None
) -> None:
    access, token = token_access(world, Rights(read=frozenset({"likes"})))
    site = sick(site_of(world, access), error)
    sent = {"Authorization": f"Bearer {token}"} if headers is None else headers
    found = await site.client.get("/health", headers=sent)
    assert (found.status_code, found.json()) == (503, {"healthy": False})


async def test_who_may_read_all_and_everybody_without_tokens_hear_the_problems(
    world: World,
) -> None:
    whole = {"healthy": False, "problems": [PROBLEM], "remarks": []}
    access, token = token_access(world, Rights(read=frozenset({"*"})))
    headers = {"Authorization": f"Bearer {token}"}
    found = await sick(site_of(world, access)).client.get("/health", headers=headers)
    assert (found.status_code, found.json()) == (503, whole)
    assert (await sick(site_of(world)).client.get("/health")).json() == whole


async def test_a_page_of_another_site_hears_only_whether_it_is_well(world: World) -> None:
    headers = {"Host": "elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    found = await sick(site_of(world)).client.get("/health", headers=headers)
    assert (found.status_code, found.json()) == (503, {"healthy": False})
