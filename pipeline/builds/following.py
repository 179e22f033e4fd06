"""How a worker learns that its build became live, or that another one took over.

A handover is a record in every partition that names the build which is about to take over. The live
build's workers count up to it and wait there until the other build is declared, so that nothing
they ever flush is ahead of it, and nobody who looks sees a count fall. Whoever began the handover
may die: after a while they go on. Builds that are not live count past such records.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import TallyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from schemas.records import Records

log = logging.getLogger(__name__)

HANDOVER_KIND = "handover"
"""The value of the header `tally-kind` of such a record."""

HANDOVER_KEY = b"tally-handover"
"""Its key, which is found among those of a fetch without decoding it."""

WAIT_MS = 30_000
"""So long a handover is waited for after it was written; by this clock, while that agrees with the
log's, and never longer than that after a worker met it."""

_TOGETHER_MS = 2_000
"""Handovers to one build that were written within so long belong to one swap, which writes all of
them at once. One that is tried again takes longer to begin."""

LOOK_S = 5.0
LOOK_AT_HANDOVER_S = 0.2


class HandoverValue(msgspec.Struct):
    """What such a record says."""

    build: int


_decode = msgspec.json.Decoder(HandoverValue).decode


@dataclass(frozen=True, slots=True)
class Handover:
    """Where a fetch has a handover, when the log got it, and to which build."""

    offset: int
    written_ms: int
    build: int


def handovers_in(records: Records) -> list[Handover]:
    """The handovers of a fetch, in log order. Pure."""
    return [
        Handover(int(records.offsets[index]), int(records.timestamps_ms[index]), build)
        for index in records.marked()
        if records.keys[index] == HANDOVER_KEY and (build := _build_of(records, index)) is not None
    ]


def _build_of(records: Records, index: int) -> int | None:
    """The build that a handover names; None if the record is none, whatever its key."""
    if ("tally-kind", HANDOVER_KIND.encode()) not in records.headers[index]:
        return None
    try:
        return _decode(records.values[index] or b"").build
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Following:
    """Whether a worker's build is live. Owned by one event loop.

    `live` is the build that was live a moment ago; `ask` tells which one is now: it blocks, and is
    called in a thread. `retire` is called once, with the build that took over, when this one was
    live and is no longer.
    """

    def __init__(
        self,
        build: int,
        live: int,
        ask: Callable[[], int],
        retire: Callable[[int], None],
        clock: Clock,
    ) -> None:
        self._build = build
        self._live = live
        self._ask = ask
        self._retire = retire
        self._clock = clock
        self._latest: Handover | None = None
        self._until_s = 0.0
        self.is_retired = False

    def is_live(self) -> bool:
        """Whether this build is the one that views read, as far as is known."""
        return self._live == self._build

    async def watch(self) -> None:
        """Look now and then, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Ask which build is live. A ClickHouse that is away changes nothing."""
        try:
            live = await asyncio.to_thread(self._ask)
        except TallyError as error:
            log.debug("%s", error)
            return
        if self.is_live() and live != self._build and not self.is_retired:
            self.is_retired = True
            self._retire(live)
        self._live = live

    async def wait_at(self, handover: Handover, end_ms: int | None = None) -> bool:
        """Wait until another build has taken over; False if that comes to nothing.

        Returns at once if this build is not live, is the one that takes over, or the handover is
        old. `end_ms` is the time of the log's last record, where it was seen: it tells that a
        handover is new though this clock is ahead of the log's.
        """
        if handover.build == self._build:
            return False
        until_s = self._deadline_s(handover, end_ms)
        while self.is_live() and self._clock.monotonic_s() < until_s:
            await self.look()
            if not self.is_retired:
                await asyncio.sleep(LOOK_AT_HANDOVER_S)
        return self.is_retired

    def _deadline_s(self, handover: Handover, end_ms: int | None) -> float:
        """Until when it is waited for, by the monotonic clock, which nobody sets."""
        before = self._latest
        if (
            before is not None
            and before.build == handover.build
            and abs(before.written_ms - handover.written_ms) < _TOGETHER_MS
        ):
            # Every partition has one: they are waited for together, not one after the other.
            return self._until_s
        age_ms = self._clock.now_ms() - handover.written_ms
        if age_ms >= WAIT_MS and end_ms is not None:
            age_ms = end_ms - handover.written_ms
        self._latest = handover
        self._until_s = self._clock.monotonic_s() + (WAIT_MS - max(0, age_ms)) / 1000
        return self._until_s
