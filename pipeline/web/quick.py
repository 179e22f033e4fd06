"""The question that is asked most, answered before routes are looked at.

FastAPI takes as long to find the route of a cached total and to call it as the answer takes. So a
path that can be nothing else is answered here, by the same function; all others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from pipeline.errors import TallyError
from pipeline.web.problems import told
from pipeline.web.route_counters import cached

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

COUNTERS = "/api/v1/counters/"


class Quick:
    """A layer inside of `Around`. `route` is that of cached totals, whose figures these are."""

    def __init__(self, app: ASGIApp, route: BaseRoute) -> None:
        self._app = app
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counter = _counter(scope)
        if not counter:
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        scope["path_params"] = {"counter": counter}
        request = Request(scope, receive)
        try:
            response = await cached(request)
        except TallyError as error:
            response = told(request, error)
        await response(scope, receive, send)


def _counter(scope: Scope) -> str:
    """What is asked for; empty if it may be something else. Other routes have more slashes."""
    path: str = scope.get("path", "")
    if scope["type"] != "http" or scope["method"] != "GET" or not path.startswith(COUNTERS):
        return ""
    counter = path[len(COUNTERS) :]
    return "" if "/" in counter else counter
