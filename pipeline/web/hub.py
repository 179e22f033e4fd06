"""Views that many pages follow: each is asked for once a second, however many look at it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.errors import TallyError, TryAgainError
from pipeline.metrics.definitions import web as metric

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pipeline.metrics.meter import Meter

EVERY_S = 1.0
"""How often a view is asked for."""

QUIET_S = 15.0
"""How long a follower hears nothing before it is told that all is well, so that a proxy between
does not take the connection for dead."""

VIEWS_MAX = 200
FOLLOWERS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class News:
    """What a view shows now, as JSON; an error is news, too."""

    view: str
    body: bytes
    is_error: bool = False


@dataclass(slots=True)
class _View:
    """One view, who follows it, and what it showed last."""

    asking: asyncio.Task[None] | None = None
    followers: set[asyncio.Queue[News]] = field(default_factory=set)
    last: News | None = None


class Hub:
    """Asks for views while somebody follows them. Owned by one event loop."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._views: dict[str, _View] = {}
        self._followers = 0

    async def follow(
        self, views: dict[str, Callable[[], Awaitable[dict[str, Any]]]]
    ) -> AsyncIterator[News | None]:
        """News of views by name, for ever: what each shows now, then its changes; None when quiet.

        Equal names must ask for the same. A follower that is slow misses what was in between, never
        the newest. Raises TryAgainError when too many follow already.
        """
        new = [name for name in views if name not in self._views]
        if self._followers >= FOLLOWERS_MAX or len(self._views) + len(new) > VIEWS_MAX:
            raise TryAgainError("too many follow already: ask again later")
        queues = {name: self._join(name, ask) for name, ask in views.items()}
        self._followers += 1
        self._meter.set(metric.SSE_CLIENTS(), self._followers)
        try:
            async for news in _merged(list(queues.values())):
                yield news
        finally:
            self._followers -= 1
            self._meter.set(metric.SSE_CLIENTS(), self._followers)
            for name, queue in queues.items():
                self._leave(name, queue)

    async def close(self) -> None:
        """Stop asking."""
        tasks = [view.asking for view in self._views.values() if view.asking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _join(self, name: str, ask: Callable[[], Awaitable[dict[str, Any]]]) -> asyncio.Queue[News]:
        view = self._views.setdefault(name, _View())
        queue: asyncio.Queue[News] = asyncio.Queue(maxsize=1)
        view.followers.add(queue)
        if view.last is not None:
            queue.put_nowait(view.last)
        if view.asking is None:
            view.asking = asyncio.create_task(self._keep_asking(name, view, ask))
        return queue

    def _leave(self, name: str, queue: asyncio.Queue[News]) -> None:
        view = self._views[name]
        view.followers.discard(queue)
        if not view.followers:
            if view.asking is not None:
                view.asking.cancel()
            del self._views[name]

    async def _keep_asking(
        self, name: str, view: _View, ask: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        while True:
            try:
                news = News(name, msgspec.json.encode(await ask()))
            except TallyError as error:
                news = News(name, msgspec.json.encode({"error": str(error)}), is_error=True)
            if view.last is None or news != view.last:
                view.last = news
                for queue in view.followers:
                    with contextlib.suppress(asyncio.QueueEmpty):
                        queue.get_nowait()
                    queue.put_nowait(news)
            await asyncio.sleep(EVERY_S)


async def _merged(queues: list[asyncio.Queue[News]]) -> AsyncIterator[News | None]:
    """Whatever comes first of any of them; None after QUIET_S without any."""
    getting = {asyncio.create_task(queue.get()): queue for queue in queues}
    try:
        while True:
            done, _ = await asyncio.wait(
                getting, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                yield None
            for task in done:
                queue = getting.pop(task)
                getting[asyncio.create_task(queue.get())] = queue
                yield task.result()
    finally:
        for task in getting:
            task.cancel()
