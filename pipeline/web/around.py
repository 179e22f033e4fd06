"""What is done around every request: its path read as it was sent, its figures kept, its answer
made safe for browsers, a bug told as one. Plain ASGI: every request pays for every layer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from pipeline.metrics.definitions import web as metric
from pipeline.web.problems import BUG, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter

log = logging.getLogger(__name__)

_RAW = "/api/"
"""Below this, paths are routed with their percent signs: a counter may have a slash in it, which is
written as %2F, and the routes read it back."""

_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]

_UNKNOWN = "unknown"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
"""That are counted by name: what a parser lets through is no bound."""

_NO_ASCII = "the URL's query is no ASCII; write other characters with percent signs"


class Around:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, meter: Meter, clock: Clock) -> None:
        self._app = app
        self._meter = meter
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(_RAW) and scope.get("raw_path"):
            scope["path"] = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        began_s = self._clock.monotonic_s()
        has_begun = False

        async def told(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *_SAFE]
                self._count(scope, message["status"], self._clock.monotonic_s() - began_s)
            await send(message)

        try:
            if scope["query_string"].isascii():
                await self._app(scope, receive, told)
            else:
                await problem(400, _NO_ASCII)(scope, receive, told)
        except ClientDisconnect:
            # Whoever sent half a body and left waits for no answer.
            log.info("a client left before its request was whole")
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["path"])
            if has_begun:
                raise
            await problem(500, BUG)(scope, receive, told)

    def _count(self, scope: Scope, status: int, took_s: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", _UNKNOWN)
        is_known = route is not None and scope["method"] in _METHODS
        method = scope["method"] if is_known else _UNKNOWN
        kind: metric.StatusClass = f"{status // 100}xx"  # type: ignore[assignment]  # 1xx to 5xx
        self._meter.add(metric.REQUESTS(path, method, kind))
        self._meter.observe(metric.REQUEST_SECONDS(path), took_s)
