"""Whether what happened so long ago, or will, would be counted: told at the call, not later.

The pipeline has the last say, by log time. Here it goes by the clock and by the rules that were
applied last, so that a refusal is an answer and nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipeline.errors import BadInputError, TryAgainError
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
        self._rules = CountingRules()
        self._asked_s = float("-inf")

    async def check(self, counter: str, at_ms: int | None) -> None:
        """Raises BadInputError for an increment that would be refused for its time."""
        if at_ms is None:
            return
        rules = await self._known()
        _check(at_ms, self._clock.now_ms(), rules.of(counter).lateness_ms)

    async def refused(self, columns: pa.Table) -> list[tuple[int, str]]:
        """The rows that would be refused for their time, and why."""
        times = columns["at"]
        if times.null_count == len(times):
            return []
        rules, now_ms = await self._known(), self._clock.now_ms()
        low, high = now_ms - _shortest(rules), now_ms + EARLINESS_MS
        suspect = pc.indices_nonzero(
            pc.or_(pc.less(times, low), pc.greater(times, high)).fill_null(False)
        ).to_pylist()
        found = []
        for row in suspect:
            counter = columns["counter"][row].as_py()
            try:
                _check(times[row].as_py(), now_ms, rules.of(counter).lateness_ms)
            except BadInputError as error:
                found.append((row, str(error)))
        return found

    async def _known(self) -> CountingRules:
        """The rules applied last; those known before while ClickHouse is away."""
        now_s = self._clock.monotonic_s()
        if now_s - self._asked_s > AGE_S:
            self._asked_s = now_s
            try:
                found = await self._asking.ask(newest_rules)
            except TryAgainError:
                self._asked_s = float("-inf")
            else:
                self._rules = found or self._rules
        return self._rules


def _shortest(rules: CountingRules) -> int:
    return min(one.lateness_ms for one in (rules.default, *rules.families.values()))


def _check(at_ms: int, now_ms: int, lateness_ms: int) -> None:
    if at_ms > now_ms + EARLINESS_MS:
        raise BadInputError(f"at: more than {EARLINESS_MS // 1000} s ahead")
    if at_ms < now_ms - lateness_ms:
        raise BadInputError(f"at: more than {lateness_ms // 1000} s ago, too late")
