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

WARM_TURNS = 10
"""How often within the age hot values are looked for: those past half of it are loaded again, and
have nearly the other half for that, however slow ClickHouse is."""

WARM_MAX = 5_000
"""How many hot values are kept warm at once."""


@dataclass(slots=True)
class Kept(Generic[Value]):
    """A value, how often it was read since it was loaded, and when it was read last."""

    value: Value
    read_s: float
    reads: int = 0


class Cache(Generic[Key, Value]):
    """Keeps values for at most `age_s`. Owned by one event loop.

    Reads of one key that come together become one question, whose answer is kept even if nobody
    waits for it any more. `on_read` is told of each read whether it was answered from memory;
    `on_warmed`, how many hot values were loaded again.
    """

    def __init__(
        self,
        batches: Batches[Key, Value],
        clock: Clock,
        age_s: float,
        *,
        entries_max: int = ENTRIES_MAX,
        on_read: Callable[[bool], None] = lambda _: None,
        on_warmed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._batches = batches
        self._clock = clock
        self._age_s = age_s
        self._entries_max = entries_max
        self._on_read = on_read
        self._on_warmed = on_warmed
        # In the order in which they were last read.
        self._kept: OrderedDict[Key, Kept[Value]] = OrderedDict()
        self._loading: dict[Key, tuple[asyncio.Task[Value], float]] = {}

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
        now_s = self._clock.monotonic_s()
        if now_s - found.value.asked_s > (self._age_s if age_s is None else age_s):
            return None
        found.reads += 1
        found.read_s = now_s
        self._kept.move_to_end(key)
        return found.value

    def keep(self, key: Key, value: Value) -> None:
        """Take a value that was loaded otherwise, if it is newer than what is kept."""
        known = self._kept.get(key)
        if known is None:
            self._kept[key] = Kept(value, self._clock.monotonic_s())
            while len(self._kept) > self._entries_max:
                self._kept.popitem(last=False)
        elif known.value.asked_s < value.asked_s:
            # Its place stays: being loaded is not being read.
            self._kept[key] = Kept(value, known.read_s)

    async def get(self, key: Key) -> Value:
        """The value from memory, or loaded. Raises what loading raises."""
        found = self.kept(key)
        self._on_read(found is not None)
        if found is not None:
            return found
        value = await self._loaded(key)
        if (now_kept := self._kept.get(key)) is not None:
            now_kept.read_s = self._clock.monotonic_s()
            self._kept.move_to_end(key)
        return value

    def loading_s(self, key: Key) -> float:
        """For how long the value is being loaded; 0 if it is not. Never blocks."""
        found = self._loading.get(key)
        return 0.0 if found is None else self._clock.monotonic_s() - found[1]

    async def keep_warm(self) -> None:
        """Load hot values again, for ever, each before it is too old."""
        while True:
            await asyncio.sleep(self._age_s / WARM_TURNS)
            hot = self._hot()
            results = await asyncio.gather(*map(self._loaded, hot), return_exceptions=True)
            failed = [one for one in results if isinstance(one, BaseException)]
            self._on_warmed(len(results) - len(failed))
            for error in failed:
                if not isinstance(error, TallyError):
                    log.error("values cannot be kept warm", exc_info=error)
                    break

    def _hot(self) -> list[Key]:
        """Only those that were read within the age are looked at, however many are kept."""
        now_s = self._clock.monotonic_s()
        hot: list[Key] = []
        for key, found in reversed(self._kept.items()):
            if now_s - found.read_s > self._age_s or len(hot) == WARM_MAX:
                break
            if found.reads >= HOT_READS and now_s - found.value.asked_s > self._age_s / 2:
                hot.append(key)
        return hot

    async def _loaded(self, key: Key) -> Value:
        if key not in self._loading:
            task = asyncio.create_task(self._load(key))
            # Retrieved, so that an error nobody waits for any more is not complained about.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._loading[key] = task, self._clock.monotonic_s()
        return await asyncio.shield(self._loading[key][0])

    async def _load(self, key: Key) -> Value:
        try:
            value = await self._batches.shared(key)
        finally:
            del self._loading[key]
        self.keep(key, value)
        return value
