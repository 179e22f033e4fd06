"""Values that were loaded a moment ago, kept for those who ask next; hot ones are kept warm."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pipeline.errors import TallyError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pipeline.clock import Clock
    from pipeline.web.batches import Batches

log = logging.getLogger(__name__)


class Dated(Protocol):
    """A value that knows when the question for it began, by the monotonic clock."""

    @property
    def asked_s(self) -> float: ...


Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value", bound=Dated)

ENTRIES_MAX = 100_000
"""How many values are kept; those that were read longest ago go first."""

HOT_READS = 2
"""A value that was read so often since it was loaded is loaded again before it is too old."""

WARM_MAX = 5_000
"""How many hot values are kept warm at once."""


@dataclass(slots=True)
class Kept(Generic[Value]):
    """A value, and how often it was read since it was loaded."""

    value: Value
    reads: int = 0


class Cache(Generic[Key, Value]):
    """Keeps values for at most `age_s`. Owned by one event loop.

    Reads of one key that come together become one question. `on_read` is told of each read whether
    it was answered from memory.
    """

    def __init__(
        self,
        batches: Batches[Key, Value],
        clock: Clock,
        age_s: float,
        *,
        entries_max: int = ENTRIES_MAX,
        on_read: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._batches = batches
        self._clock = clock
        self._age_s = age_s
        self._entries_max = entries_max
        self._on_read = on_read
        self._kept: OrderedDict[Key, Kept[Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything. Nothing depends on it but speed."""
        self._kept.clear()

    def kept(self, key: Key, age_s: float | None = None) -> Value | None:
        """What is in memory, if it is young enough. Never blocks."""
        found = self._kept.get(key)
        if found is None:
            return None
        limit_s = self._age_s if age_s is None else age_s
        if self._clock.monotonic_s() - found.value.asked_s > limit_s:
            return None
        found.reads += 1
        self._kept.move_to_end(key)
        return found.value

    async def get(self, key: Key) -> Value:
        """The value from memory, or loaded. Raises what loading raises."""
        found = self.kept(key)
        self._on_read(found is not None)
        return await self._loaded(key) if found is None else found

    async def keep_warm(self) -> None:
        """Load hot values again, for ever, each before it is too old."""
        while True:
            await asyncio.sleep(self._age_s / 4)
            hot = self._hot()
            results = await asyncio.gather(*map(self._loaded, hot), return_exceptions=True)
            failed = [one for one in results if isinstance(one, BaseException)]
            if failed and not isinstance(failed[0], TallyError):
                log.error("values cannot be kept warm", exc_info=failed[0])

    def _hot(self) -> list[Key]:
        old_s = self._clock.monotonic_s() - self._age_s / 2
        return [
            key
            for key, found in reversed(self._kept.items())
            if found.reads >= HOT_READS and found.value.asked_s < old_s
        ][:WARM_MAX]

    async def _loaded(self, key: Key) -> Value:
        value = await self._batches.shared(key)
        known = self._kept.get(key)
        if known is None or known.value.asked_s < value.asked_s:
            self._kept[key] = Kept(value)
            self._kept.move_to_end(key)
            while len(self._kept) > self._entries_max:
                self._kept.popitem(last=False)
        return value
