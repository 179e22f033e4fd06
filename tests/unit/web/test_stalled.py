"""Clients that begin a request or an answer and then do nothing: they hold no place for ever."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message, Scope

from pipeline.web import limits, route_events
from pipeline.web.app import build_app
from pipeline.web.limits import BULKS_MAX
from tests.unit.web.app import site_of
from tests.unit.web.world import World, eventually

BULK = "/api/v1/increments"


def scope_of(method: str, path: str, query: bytes = b"") -> Scope:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(b"host", b"localhost")],
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }


class Client:
    """Sends one byte of a body, or takes some messages of an answer; then it only stays."""

    def __init__(self, takes: int) -> None:
        self.answer: list[Message] = []
        self._takes = takes
        self._sends: Iterator[bytes] = iter([b"{"])

    async def receive(self) -> Message:
        for part in self._sends:
            return {"type": "http.request", "body": part, "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError("it never goes on")

    async def send(self, message: Message) -> None:
        if len(self.answer) == self._takes:
            await asyncio.Event().wait()
        self.answer.append(message)


@pytest.mark.parametrize("path", [BULK, "/api/v1/counters/likes:a/increment"])
async def test_a_body_that_does_not_arrive_is_answered_and_its_connection_closed(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(limits, "BODY_S_MAX", 0.02)
    app, client = build_app(site_of(world).services), Client(takes=2)
    await asyncio.wait_for(app(scope_of("POST", path), client.receive, client.send), 5)
    start, body = client.answer
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert b"did not arrive within 0.02 s" in body["body"]


async def test_stalled_uploads_give_their_places_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_S_MAX", 0.05)
    site = site_of(world)
    app, clients = build_app(site.services), [Client(takes=2) for _ in range(BULKS_MAX)]
    stalled = [
        asyncio.create_task(app(scope_of("POST", BULK), one.receive, one.send)) for one in clients
    ]
    await asyncio.sleep(0.01)
    assert (await site.client.post(BULK, content=b"\n")).status_code == 503
    await asyncio.wait_for(asyncio.gather(*stalled), 5)
    assert (await site.client.post(BULK, content=b"\n")).status_code == 422


async def test_a_follower_that_takes_nothing_more_gives_its_place_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_events, "TAKEN_S_MAX", 0.02)
    site, client = site_of(world), Client(takes=2)
    scope = scope_of("GET", "/api/v1/events", b"counter=likes:a")
    app = build_app(site.services)
    following = asyncio.create_task(app(scope, client.receive, client.send))
    await eventually(lambda: len(site.services.hub._views) == 1)
    await asyncio.wait_for(following, 5)
    assert (site.services.hub._followers, site.services.hub._views) == (0, {})
