"""Views that many pages follow: each is asked for once a second, however many look at it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from pipeline.errors import TallyError, TryAgainError
from pipeline.metrics.definitions import web as metric
from pipeline.web.answering import without_ages
from pipeline.web.problems import BUG, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from pipeline.metrics.meter import Meter

    Ask = Callable[[], Awaitable[dict[str, Any]]]

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""How often a view is asked for."""

QUIET_S = 15.0
"""How long a follower hears nothing before it is told that all is well, so that a proxy between
does not take the connection for dead."""

VIEWS_MAX = 200
FOLLOWERS_MAX = 5_000


class View(NamedTuple):
    """What is looked at. Equal views show the same, so that they are asked for once."""

    kind: Literal[
        "beat", "counter", "detail", "family", "operator", "rate", "top", "trending", "windows"
    ]
    region: str
    name: str


@dataclass(frozen=True, slots=True)
class News:
    """What a view shows now, as JSON; an error is news, too."""

    view: View
    body: bytes
    is_error: bool = False


@dataclass(slots=True)
class _Followed:
    """One view: who asks for it, who follows it, and what it showed last, without its age."""

    asking: asyncio.Task[None] | None = None
    followers: set[asyncio.Queue[News | None]] = field(default_factory=set)
    last: News | None = None
    same: Any = None


class Hub:
    """Asks for views while somebody follows them. Owned by one event loop."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._views: dict[View, _Followed] = {}
        self._followers = 0
        self._is_closed = False

    def check_room(self, views: Mapping[View, Ask]) -> None:
        """Raises TryAgainError when too many follow already. For before an answer begins."""
        new = sum(view not in self._views for view in views)
        is_full = self._followers >= FOLLOWERS_MAX or len(self._views) + new > VIEWS_MAX
        if is_full or self._is_closed:
            raise TryAgainError("too many follow already: ask again later")

    async def follow(self, views: Mapping[View, Ask]) -> AsyncGenerator[News | None]:
        """News of views until the hub is closed: what each shows now, then its changes.

        None when it was quiet for long. A follower that is slow misses what was in between, never
        the newest. Raises TryAgainError when too many follow already.
        """
        self.check_room(views)
        queues = {view: self._join(view, ask) for view, ask in views.items()}
        self._followers += 1
        self._meter.set(metric.SSE_CLIENTS(), self._followers)
        try:
            async for news in _merged(list(queues.values())):
                yield news
        finally:
            self._followers -= 1
            self._meter.set(metric.SSE_CLIENTS(), self._followers)
            for view, queue in queues.items():
                self._leave(view, queue)

    async def close(self) -> None:
        """Stop asking, and end what everybody follows. May be repeated."""
        self._is_closed = True
        tasks = [view.asking for view in self._views.values() if view.asking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for followed in self._views.values():
            for queue in followed.followers:
                _put(queue, None)

    def _join(self, view: View, ask: Ask) -> asyncio.Queue[News | None]:
        followed = self._views.setdefault(view, _Followed())
        queue: asyncio.Queue[News | None] = asyncio.Queue(maxsize=1)
        followed.followers.add(queue)
        if followed.last is not None:
            queue.put_nowait(followed.last)
        if followed.asking is None:
            followed.asking = asyncio.create_task(_keep_asking(view, followed, ask))
        return queue

    def _leave(self, view: View, queue: asyncio.Queue[News | None]) -> None:
        followed = self._views[view]
        followed.followers.discard(queue)
        if not followed.followers:
            if followed.asking is not None:
                followed.asking.cancel()
            del self._views[view]


async def _keep_asking(view: View, followed: _Followed, ask: Ask) -> None:
    """Ask for ever, whatever goes wrong; tell what changes, but for its age."""
    while True:
        is_error = True
        try:
            document, is_error = await ask(), False
        except TallyError as error:
            document = {"error": text_of(error)}
        except Exception:
            log.exception("the view %r cannot be asked for", view)
            document = {"error": BUG}
        same = (is_error, without_ages(document))
        if followed.last is None or same != followed.same:
            followed.same = same
            followed.last = News(view, msgspec.json.encode(document), is_error)
            for queue in followed.followers:
                _put(queue, followed.last)
        await asyncio.sleep(EVERY_S)


def _put(queue: asyncio.Queue[News | None], news: News | None) -> None:
    """The newest takes the place of what was not fetched yet."""
    with contextlib.suppress(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.put_nowait(news)


async def _merged(queues: list[asyncio.Queue[News | None]]) -> AsyncIterator[News | None]:
    """Whatever comes first of any of them; None after QUIET_S without any. Ends with a None."""
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
                news = task.result()
                if news is None:
                    return
                yield news
    finally:
        for task in getting:
            task.cancel()
