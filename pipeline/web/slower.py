"""A part of a view that is asked for less often than the view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pipeline.clock import Clock

Answer = TypeVar("Answer")


class Slower(Generic[Answer]):
    """Keeps an answer for so long. Owned by one event loop, and called by one at a time."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], clock: Clock, age_s: float) -> None:
        self._ask = ask
        self._clock = clock
        self._age_s = age_s
        self._kept: tuple[float, Answer] | None = None

    async def __call__(self) -> Answer:
        """At most `age_s` old. Raises what the question raises, and then keeps what it had."""
        asked_s = self._clock.monotonic_s()
        if self._kept is not None and asked_s - self._kept[0] < self._age_s:
            return self._kept[1]
        answer = await self._ask()
        self._kept = asked_s, answer
        return answer
