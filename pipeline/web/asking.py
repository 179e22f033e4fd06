"""ClickHouse for an event loop: questions are asked in threads, so that nobody else waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pipeline.clickhouse import connect
from pipeline.errors import TryAgainError
from pipeline.reads.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from schemas.addresses import ClickHouseAddress

Answer = TypeVar("Answer")

THREADS = 8
"""How many questions are asked at a time. ClickHouse has its own bound beyond that."""

WAITING_MAX = 256
"""How many more may wait for a thread. One more is refused, so that a slow ClickHouse is told to
callers instead of piling up."""

ANSWER_TIMEOUT_S = 30


class Asking:
    """Asks in threads, each with a client of its own, made when it is first needed.

    Owned by one event loop.
    """

    def __init__(self, clickhouse: ClickHouseAddress, clock: Clock) -> None:
        self._clickhouse = clickhouse
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tally-reads")
        self._own = threading.local()
        self._under_way = 0

    async def ask(self, question: Callable[[Reads], Answer]) -> Answer:
        """What the question returns or raises; TryAgainError when too many wait already.

        One that is being asked is asked to its end, also if nobody waits for it any more.
        """
        if self._under_way >= THREADS + WAITING_MAX:
            raise TryAgainError("too many questions wait for ClickHouse: ask again later")
        try:
            future = self._threads.submit(self._answer, question)
        except RuntimeError as error:
            raise TryAgainError("this web process ends: ask again") from error
        self._under_way += 1
        future.add_done_callback(self._done_from_thread(asyncio.get_running_loop()))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let what is being asked end; what waits is not asked. Never blocks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done_from_thread(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        def done(_: object) -> None:
            # The loop may be closed when the program ends.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._done)

        return done

    def _done(self) -> None:
        self._under_way -= 1

    def _answer(self, question: Callable[[Reads], Answer]) -> Answer:
        reads: Reads | None = getattr(self._own, "reads", None)
        if reads is None:
            client = connect(self._clickhouse, answer_timeout_s=ANSWER_TIMEOUT_S)
            reads = self._own.reads = Reads(client, self._clock)
        try:
            return question(reads)
        except TryAgainError:
            # It may be the connection's fault; the next question makes another.
            self._own.reads = None
            raise
