"""How far every shard is in ClickHouse, asked once for all who want to know."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipeline.producer.receipts import Places
from pipeline.reads.counts import read_ground
from pipeline.reads.receipts import behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.reads.counts import Ground
    from pipeline.reads.reads import FlushedShard
    from pipeline.reads.receipts import Behind
    from pipeline.web.asking import Asking

POLL_S = 0.05
"""Between looks, while somebody waits for a place."""


BORDER_AGE_S = 1.0
"""How old the border between what is rolled up for good and the rest, and the choice of the live
build, may be. Both change once a day or less, and what they leave behind stays for minutes."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was read first, and when it was asked for; its border may be older."""

    ground: Ground
    asked_s: float
    border_asked_s: float

    @property
    def positions(self) -> Sequence[FlushedShard]:
        return self.ground.positions

    @property
    def places(self) -> Places:
        """The last offset by shard that was in ClickHouse."""
        return Places({one.shard: one.flushed_through for one in self.positions})


def covers(places: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Whether what is known up to `places` has everything up to `wanted`. Pure."""
    return all(places.get(shard, -1) >= offset for shard, offset in wanted.items())


class Flushed:
    """Looks at positions; those who ask at the same time share a look. Owned by one event loop."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._last: Look | None = None
        self._looking: asyncio.Task[Look] | None = None

    async def look(self, age_s: float, ahead_s: float = math.inf) -> Look:
        """Positions that were asked for at most so long ago, or are being asked for already.

        Those that were asked for longer ago than `ahead_s` are asked for again meanwhile, so that
        of many who look one after the other nobody waits. Raises TryAgainError.
        """
        now_s = self._clock.monotonic_s()
        last = self._last
        if last is not None and now_s - last.asked_s <= age_s:
            if now_s - last.asked_s > ahead_s:
                self._begin(now_s)
            return last
        # Shielded: others may wait for the same look.
        return await asyncio.shield(self._begin(now_s))

    async def wait(self, places: Mapping[int, int], timeout_s: float) -> list[Behind]:
        """Return when everything up to `places` is in ClickHouse; after so long, who is behind.

        Looks at least once. Raises TryAgainError when ClickHouse does not answer.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            found = behind((await self.look(POLL_S)).positions, places)
            left_s = deadline_s - self._clock.monotonic_s()
            if not found or left_s <= 0:
                return found
            await asyncio.sleep(min(POLL_S, left_s))

    def _begin(self, asked_s: float) -> asyncio.Task[Look]:
        """The look that is under way, or one that begins now."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(asked_s))
            # Retrieved, so that an error nobody waits for any more is not complained about.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._looking

    async def _look(self, asked_s: float) -> Look:
        last = self._last
        known = None
        if last is not None and asked_s - last.border_asked_s <= BORDER_AGE_S:
            known = last.ground
        ground = await self._asking.ask(partial(read_ground, known=known))
        is_known = known is not None and ground.border is known.border
        border_asked_s = last.border_asked_s if last is not None and is_known else asked_s
        self._last = Look(ground, asked_s, border_asked_s)
        return self._last
