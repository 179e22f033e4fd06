"""Whether what happened so long ago, or will, would be counted: told at the call, not later.

The pipeline has the last say, by log time. Here it goes by the clock and by the rules that were
applied last, so that a refusal is an answer and nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipeline.errors import TryAgainError
from pipeline.reads.applied_rules import newest_rules
from pipeline.rules import EARLINESS_MS, CountingRules

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.clock import Clock
    from pipeline.web.asking import Asking

AGE_S = 10.0
"""From which age on the rules are looked for again, while writes go by those that are known."""

OLD_S = 60.0
"""Rules that are older are waited for, as none would be: nothing was written for a while."""

WAIT_S_MAX = 1.0
"""How long writes wait for a look, counted from its beginning: a ClickHouse that hangs holds up
those of one second, and no more."""

RETRY_S = 5.0
"""Between looks: one that failed is not repeated by every write."""


class Timely:
    """Checks times of increments. Owned by one event loop."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._rules: CountingRules | None = None
        self._asked_s = self._began_s = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    async def refusal(self, counter: str, at_ms: int | None) -> str | None:
        """Why an increment would be refused for its time; None when it would be counted."""
        if at_ms is None:
            return None
        return _refusal(await self._known(), counter, at_ms, self._clock.now_ms())

    async def refused(self, columns: pa.Table) -> list[tuple[int, str]]:
        """The rows that would be refused for their time, and why."""
        times = columns["at"]
        if times.null_count == len(times):
            return []
        # There may be very many, and others wait meanwhile.
        return await asyncio.to_thread(_refused, columns, await self._known(), self._clock.now_ms())

    async def _known(self) -> CountingRules | None:
        """The rules as they were known a moment ago; those known before while ClickHouse is away
        or slow; None before that. Waits up to WAIT_S_MAX, and only where these are none or old."""
        now_s = self._clock.monotonic_s()
        if now_s - self._asked_s > AGE_S:
            looking = self._begin(now_s)
            left_s = self._began_s + WAIT_S_MAX - now_s
            if now_s - self._asked_s > OLD_S and left_s > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await asyncio.shield(looking)
        return self._rules

    def _begin(self, now_s: float) -> asyncio.Task[None]:
        """The look that is under way or was last, or one that begins now."""
        if self._looking is None or (self._looking.done() and now_s - self._began_s >= RETRY_S):
            self._began_s = now_s
            self._looking = asyncio.create_task(self._look())
            # Retrieved, so that an error nobody waits for is not complained about.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._looking

    async def _look(self) -> None:
        asked_s = self._clock.monotonic_s()
        try:
            found = await self._asking.ask(newest_rules)
        except TryAgainError:
            return
        self._rules = found or self._rules or CountingRules()
        self._asked_s = asked_s


def _refused(columns: pa.Table, rules: CountingRules | None, now_ms: int) -> list[tuple[int, str]]:
    times = columns["at"]
    suspect = pc.greater(times, now_ms + EARLINESS_MS)
    if rules is not None:
        suspect = pc.or_(suspect, pc.less(times, now_ms - rules.lateness_ms_min))
    rows = pc.indices_nonzero(suspect.fill_null(False))
    few = columns.select(["counter", "at"]).take(rows).to_pydict()
    found = zip(rows.to_pylist(), few["counter"], few["at"], strict=True)
    reasons = ((row, _refusal(rules, counter, at_ms, now_ms)) for row, counter, at_ms in found)
    return [(row, why) for row, why in reasons if why is not None]


def _refusal(rules: CountingRules | None, counter: str, at_ms: int, now_ms: int) -> str | None:
    """Lateness is a rule's; where none is known, the pipeline alone can say."""
    if at_ms > now_ms + EARLINESS_MS:
        return f"at: more than {EARLINESS_MS // 1000} s ahead"
    if rules is None:
        return None
    lateness_ms = rules.of(counter).lateness_ms
    if at_ms < now_ms - lateness_ms:
        return f"at: more than {lateness_ms // 1000} s ago, too late"
    return None
