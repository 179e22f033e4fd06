"""What is asked most, answered before routes are looked at: cached totals, and single increments.

FastAPI takes as long to find the route of either and to call it as the answer takes. So a path that
can be nothing else is answered here, by the same function; all others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from pipeline.errors import TallyError
from pipeline.web.problems import told
from pipeline.web.route_counters import CACHED, cached
from pipeline.web.route_increments import INCREMENT, plain_increment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

COUNTERS = "/api/v1/counters/"
_INCREMENT = "/increment"


class Quick:
    """A layer inside of `Around`. Its answers count among the figures of their routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Callable[[Request], Awaitable[Response]]
        route: BaseRoute
        if counter := _read(scope):
            route, answer = CACHED, cached
        elif counter := _incremented(scope):
            route, answer = INCREMENT, plain_increment
        else:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        scope["path_params"] = {"counter": counter}
        request = Request(scope, receive)
        try:
            response = await answer(request)
        except TallyError as error:
            response = told(request, error)
        await response(scope, receive, send)


def _read(scope: Scope) -> str:
    """The counter whose cached total is asked for; empty if it may be something else."""
    return _without_slash(_after(scope, "GET"))


def _incremented(scope: Scope) -> str:
    """The counter that is incremented; empty if it may be something else."""
    path = _after(scope, "POST")
    return _without_slash(path[: -len(_INCREMENT)]) if path.endswith(_INCREMENT) else ""


def _after(scope: Scope, method: str) -> str:
    """The path below counters; empty for other paths and methods."""
    path: str = scope.get("path", "")
    if scope["type"] != "http" or scope["method"] != method or not path.startswith(COUNTERS):
        return ""
    return path[len(COUNTERS) :]


def _without_slash(counter: str) -> str:
    """Other routes have more slashes."""
    return "" if "/" in counter else counter
