"""What is done around every request: its path read as it was sent, its figures kept, its answer
made safe for browsers. Plain ASGI, since every layer more is paid by every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.metrics.definitions import web as metric

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter

_RAW = "/api/"
"""Below this, paths are routed with their percent signs: a counter may have a slash in it, which is
written as %2F, and the routes read it back."""

_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]

_UNKNOWN = "unknown"


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

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_SAFE]
                self._count(scope, message["status"], self._clock.monotonic_s() - began_s)
            await send(message)

        await self._app(scope, receive, told)

    def _count(self, scope: Scope, status: int, took_s: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", _UNKNOWN)
        method = scope["method"] if route is not None else _UNKNOWN
        kind: metric.StatusClass = f"{status // 100}xx"  # type: ignore[assignment]  # 1xx to 5xx
        self._meter.add(metric.REQUESTS(path, method, kind))
        self._meter.observe(metric.REQUEST_SECONDS(path), took_s)
