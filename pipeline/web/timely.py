"""Whether what happened so long ago, or will, would be counted: told at the call, not later.

The pipeline has the last say, by log time. Here it goes by the clock and by the rules that were
applied last, so that a refusal is an answer and nothing is written.
"""

from __future__ import annotations

import asyncio
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
"""How old the rules may be."""


class Timely:
    """Checks times of increments. Owned by one event loop."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._rules: CountingRules | None = None
        self._asked_s = float("-inf")
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
        """The rules applied last; those known before while ClickHouse is away; None before that."""
        if self._clock.monotonic_s() - self._asked_s > AGE_S:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            # Who knows none waits for them, and so does who has to look anyway.
            await asyncio.shield(self._looking)
        return self._rules

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
        suspect = pc.or_(suspect, pc.less(times, now_ms - _shortest(rules)))
    rows = pc.indices_nonzero(suspect.fill_null(False))
    few = columns.select(["counter", "at"]).take(rows).to_pydict()
    found = zip(rows.to_pylist(), few["counter"], few["at"], strict=True)
    reasons = ((row, _refusal(rules, counter, at_ms, now_ms)) for row, counter, at_ms in found)
    return [(row, why) for row, why in reasons if why is not None]


def _shortest(rules: CountingRules) -> int:
    return min(one.lateness_ms for one in (rules.default, *rules.families.values()))


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
