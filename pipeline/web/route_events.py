"""Server-sent events: views that change, for pages that stay open."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from pipeline.errors import BadInputError
from pipeline.reads import trends
from pipeline.reads.family_windows import Period
from pipeline.reads.top import ALL_REGIONS, top
from pipeline.web.callers import Caller, family_of
from pipeline.web.counter_view import detail_view, windows_view
from pipeline.web.counting import Asked
from pipeline.web.family_view import FamilyView
from pipeline.web.hub import View
from pipeline.web.operator_view import beat_view, operator_view, rate_view
from pipeline.web.questions import GrainName, Region, checked_counter, checked_family

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from starlette.types import Message, Send

    from pipeline.clock import Clock
    from pipeline.web.hub import News
    from pipeline.web.services import Services

router = APIRouter(prefix="/api/v1", tags=["reads"])

VIEWS_MAX = 20
TOP_K = 20

FOLLOWED_S_MAX = 900.0
"""How long one stream lasts; whoever follows connects anew, with a token that still holds."""

TAKEN_S_MAX = 60.0
"""How long a follower may take for one event. It has gone, or does not read: so its place is free
for others, though its connection may stay for a while."""

Names = Annotated[list[str] | None, Query(max_length=VIEWS_MAX)]


@router.get("/events", response_class=StreamingResponse)
async def events(
    request: Request,
    caller: Caller,
    region: Region,
    counter: Names = None,
    top: Names = None,
    trending: Names = None,
    windows: Names = None,
    by: GrainName = "1m",
    detail: Names = None,
    family: Names = None,
    rate: bool = False,
    operator: bool = False,
    beat: bool = False,
) -> StreamingResponse:
    """Counters, rankings and trends as they change: `event` is which view, `data` its document.

    A view is asked for about once a second, however many follow it, and told when it changes. An
    event `trouble` says which view cannot be told now, and why; it goes on by itself. `beat` tells
    each second as of when counts are. After a quarter of an hour the stream ends, and browsers
    connect anew: so a token that was revoked is of no more use.
    """
    services: Services = request.app.state.services
    where = ALL_REGIONS if region is None else region
    views: dict[View, Callable[[], Awaitable[dict[str, Any]]]] = {}
    for name in counter or ():
        caller.require("read", family_of(checked_counter(name)))
        views[View("counter", where, name)] = partial(_counter, services, Asked(name, region))
    for name in top or ():
        caller.require("read", checked_family(name))
        views[View("top", where, name)] = partial(_top, services, name, where)
    for name in trending or ():
        caller.require("read", checked_family(name))
        views[View("trending", where, name)] = partial(_trending, services, name, where)
    for name in windows or ():
        caller.require("read", family_of(checked_counter(name)))
        ask = windows_view(services, Asked(name, region), by)
        views[View("windows", where, f"{by} {name}")] = ask
    for name in detail or ():
        caller.require("read", family_of(checked_counter(name)))
        views[View("detail", where, name)] = detail_view(services, Asked(name, region))
    for name in family or ():
        caller.require("read", checked_family(name))
        views[View("family", where, name)] = FamilyView(services, name, where)
    if rate:
        caller.require_all("read")
        views[View("rate", ALL_REGIONS, "")] = rate_view(services)
    if operator:
        caller.require_all("read")
        views[View("operator", ALL_REGIONS, "")] = operator_view(services)
    if not views and not beat:
        raise BadInputError("nothing to follow: give counter, top, trending or family")
    if beat:
        views[View("beat", ALL_REGIONS, "")] = beat_view(services)
    services.hub.check_room(views)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    told = _stream(services.hub.follow(views), services.clock)
    return _Events(told, headers)


class _Events(StreamingResponse):
    """A stream that ends, too, when its follower does not take what is sent."""

    def __init__(self, told: AsyncGenerator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(told, 200, headers, "text/event-stream")
        self._told = told

    async def stream_response(self, send: Send) -> None:
        """Raises ClientDisconnect after TAKEN_S_MAX in which an event was not taken."""

        async def taken(message: Message) -> None:
            try:
                async with asyncio.timeout(TAKEN_S_MAX):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        # Closed at once, not when somebody collects it: its place is to be free.
        async with contextlib.aclosing(self._told):
            await super().stream_response(taken)


async def _stream(followed: AsyncGenerator[News | None], clock: Clock) -> AsyncGenerator[bytes]:
    until_s = clock.monotonic_s() + FOLLOWED_S_MAX
    yield b"retry: 2000\n\n"
    async with contextlib.aclosing(followed):
        async for news in followed:
            yield b": all is well\n\n" if news is None else _event(news)
            if clock.monotonic_s() > until_s:
                return


def _event(news: News) -> bytes:
    """One event. JSON has no line feeds, so the document is one line."""
    kind, body = news.view.kind, news.body
    if news.is_error:
        document = {**msgspec.json.decode(body), "view": kind}
        return b"event: trouble\ndata: %s\n\n" % msgspec.json.encode(document)
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), body)


async def _counter(services: Services, asked: Asked) -> dict[str, Any]:
    return (await services.counting.cached(asked, {})).answer.document()


async def _top(services: Services, family: str, region: str) -> dict[str, Any]:
    question = partial(top, family=family, period=Period(), k=TOP_K, region=region)
    return (await services.asking.ask(question)).document()


async def _trending(services: Services, family: str, region: str) -> dict[str, Any]:
    question = trends.Question(family, TOP_K, region)
    found = await services.asking.ask(partial(trends.trending, question=question))
    return found.document()
