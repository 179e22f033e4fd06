"""Questions of operators, each with clients of its own: there are only so many at once."""

import asyncio
import threading

import pytest

from pipeline.web import route_operator
from pipeline.web.limits import OPERATORS_MAX
from tests.unit.web.app import site_of
from tests.unit.web.world import World


async def test_one_question_more_than_there_is_room_for_is_told_to_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def slow(*_: object) -> dict[str, bool]:
        return {"answered": answered.wait(20)}

    for part in ("dead_letters", "listed_builds", "shard_plan"):
        monkeypatch.setattr(route_operator, part, slow)
    client = site_of(World()).client
    paths = ["dead-letters", "builds", "shards"] * OPERATORS_MAX
    asked = [asyncio.create_task(client.get(f"/api/v1/{path}")) for path in paths[:OPERATORS_MAX]]
    for task in asked:
        await asyncio.wait([task], timeout=0.05)
    for path in paths[:3]:
        refused = await client.get(f"/api/v1/{path}")
        assert (refused.status_code, "send it again later" in refused.text) == (503, True)
    answered.set()
    assert [one.json() for one in await asyncio.gather(*asked)] == [{"answered": True}] * len(asked)
    assert (await client.get("/api/v1/builds")).status_code == 200
