"""Compares two builds through all that the log had at a moment, though both are counted on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipeline.builds.comparing.compare import compare
from pipeline.builds.comparing.state import Asking
from pipeline.placing import slot_of
from pipeline.slots import SLOT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clickhouse_connect.driver import Client

    from pipeline.builds.comparing.compared import Comparison, Scope
    from pipeline.builds.comparing.reach import Pair, Positions
    from pipeline.clock import Clock

LOOK_S = 0.5
STALLED_S = 20.0
"""A shard whose log time has not moved for so long, heartbeats included, is not waited for."""


def compare_patiently(
    client: Client,
    old: int,
    new: int,
    scope: Scope,
    *,
    clock: Clock,
    go_on: Callable[[], bool],
    tell: Callable[[str], None],
) -> Comparison:
    """As `compare`; if they agree, again when slots are over that were open and moved on.

    Blocks for as long: a minute of log time, and some seconds. Ends sooner when `go_on`, which is
    asked now and then, says no, and where a build stalls: then the comparison tells how far it is.
    `tell` hears that it waits. Raises as `compare` does, and what `go_on` raises.
    """
    asking = Asking(client, old, new)
    ends_ms = slot_ends_ms(*asking.reached())
    found = compare(client, old, new, scope)
    until_ms = {(one.replica, one.shard): one.until_ms for one in found.shards}
    lacking = {
        pair: end_ms
        for pair, end_ms in ends_ms.items()
        if (compared_ms := until_ms.get(pair)) is not None and compared_ms < end_ms
    }
    if found.differs or not lacking:
        return found
    tell("comparing the newest counts, too, when their minute of log time is over")
    waiting = Waiting(lacking)
    while go_on():
        if waiting.is_over(clock.monotonic_s(), *asking.reached()):
            return compare(client, old, new, scope)
        time.sleep(LOOK_S)
    return found


def slot_ends_ms(old: Positions, new: Positions) -> dict[Pair, int]:
    """When the slots are over that the further one of two builds is in, where both count. Pure."""
    return {
        pair: slot_of(max(old[pair].log_ms, new[pair].log_ms)) + SLOT_MS
        for pair in old
        if pair in new
    }


class Waiting:
    """For two builds to pass a moment of log time in some shards. Pure."""

    def __init__(self, ends_ms: Mapping[Pair, int]) -> None:
        self._ends_ms = dict(ends_ms)
        self._seen: dict[Pair, tuple[int, float]] = {}

    def is_over(self, now_s: float, old: Positions, new: Positions) -> bool:
        """Whether both are past it in every shard in which they have moved lately."""
        for pair, end_ms in list(self._ends_ms.items()):
            at_ms = min(build[pair].log_ms if pair in build else 0 for build in (old, new))
            if at_ms != self._seen.get(pair, (None, 0.0))[0]:
                self._seen[pair] = (at_ms, now_s)
            if at_ms >= end_ms or now_s - self._seen[pair][1] >= STALLED_S:
                del self._ends_ms[pair]
        return not self._ends_ms
