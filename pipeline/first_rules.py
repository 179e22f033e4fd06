"""The rules that a shard begins with: the first rules record of its partition holds from the start.

A partition that was added has records before its rules arrive. Which rules those are counted by
must be the same for whoever counts them, today or in a rebuild, so the log has to say it: the first
valid rules record within the first OFFSETS_MAX offsets and BYTES_MAX bytes of values holds from the
beginning. Where the log ends before either, whoever begins writes the rules it knows, or the
defaults if it knows none, and reads on: what is first in the log then is first for everybody, and
nobody waits. Where there is none so early, the defaults hold up to the first one.

No clock and no event loop of its own: it awaits what it is given, so the simulation runs it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from pipeline import topics
from pipeline.errors import BadInputError, TryAgainError
from pipeline.lanes import sort_into_lanes
from pipeline.rules import RULES_KIND, CountingRules, parse_rules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pipeline.fetches import Fetch

OFFSETS_MAX = 100_000
BYTES_MAX = 64 * 1024 * 1024
"""How far it is looked ahead. Another bound may count a log otherwise, so these never change."""


class LogAhead(Protocol):
    """Reads a partition of the log beyond what is counted."""

    async def read_ahead(self, partition: int, offset: int) -> Fetch | None:
        """What one fetch brings from an offset; None at the end. Raises TryAgainError."""
        ...


class ControlLog(Protocol):
    """Appends a control record to one partition of a topic.

    Waits until it is confirmed; raises TryAgainError when Kafka is away.
    """

    async def append_control_to(
        self, topic: str, partition: int, kind: str, value: bytes
    ) -> None: ...


async def rules_at_start(
    partition: int,
    start: int,
    known: Callable[[], Awaitable[CountingRules]],
    *,
    log: LogAhead,
    control: ControlLog,
) -> CountingRules:
    """The rules by which a shard that begins at `start` of the log counts its first record.

    Writes the `known` ones, and asks for them only then, where the log ends too soon to tell.
    Raises TryAgainError when Kafka is away, and whatever `known` raises.
    """
    ahead, offset, is_written = _Ahead(start + OFFSETS_MAX), start, False
    while not ahead.is_over:
        fetch = await log.read_ahead(partition, offset)
        if fetch is not None:
            ahead.add(fetch)
            offset = fetch.next_offset
        elif is_written:
            raise TryAgainError(f"partition {partition} does not have the rules written to it yet")
        else:
            rules = (await known()).bytes
            await control.append_control_to(topics.INCREMENTS, partition, RULES_KIND, rules)
            is_written = True
    return ahead.rules


@dataclass(slots=True)
class _Ahead:
    """What was found so far. The same however the log is cut into fetches."""

    end: int
    bytes_left: int = BYTES_MAX
    rules: CountingRules = field(default_factory=CountingRules)
    is_over: bool = False

    def add(self, fetch: Fetch) -> None:
        """Look at the fetch that follows on the last one."""
        records = fetch.records
        sizes = list(accumulate((len(value or b"") for value in records.values), initial=0))
        for index, kind in sort_into_lanes(records).control:
            if records.offsets[index] >= self.end or sizes[index] > self.bytes_left:
                break
            if kind == RULES_KIND and self._is_rules(records.values[index]):
                self.is_over = True
                return
        self.bytes_left -= sizes[-1]
        self.is_over = fetch.next_offset >= self.end or self.bytes_left < 0

    def _is_rules(self, value: bytes | None) -> bool:
        try:
            self.rules = parse_rules(value or b"")
        except BadInputError:
            return False
        return True
