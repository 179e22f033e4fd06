"""One partition of strict counters as its owner has it: recovered, decided, written down. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import BadInputError
from pipeline.sharding import counter_partition
from pipeline.strict.changelog import (
    Summary,
    counter_of,
    read_state,
    record_key,
    record_value,
    summary_of,
)
from pipeline.strict.state import NOTHING_DECIDED, CounterState
from schemas.strict import read_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.changelog import ChangelogRecord


class Outcome(StrEnum):
    """What became of a record."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    REPEATED = "repeated"
    UNREADABLE = "unreadable"
    READ_AGAIN = "read_again"


class Became(NamedTuple):
    """What became of a record, and for one that is no command why."""

    outcome: Outcome
    reason: str = ""


@dataclass(slots=True)
class Recovering:
    """Gathers the records of a partition's changelog, in their order; tombstones forget."""

    _records: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record. Raises OperatorError for what Tally did not write."""
        if value is None:
            self._records.pop(key or b"", None)
        else:
            counter_of(key or b"")
            self._records[key or b""] = value

    def own(self, partition: int, partitions: int, writer: bytes) -> OwnedPartition:
        """The partition with the furthest state of each counter, whoever wrote it."""
        owned = OwnedPartition(partition, partitions, writer)
        best: dict[str, tuple[int, bytes]] = {}
        for key, value in self._records.items():
            counter, through = counter_of(key), summary_of(value).through
            owned.others.setdefault(counter, []).append(key)
            if counter not in best or through > best[counter][0]:
                best[counter] = (through, value)
        owned.through = max((through for through, _ in best.values()), default=NOTHING_DECIDED)
        owned.stored = {counter: value for counter, (_, value) in best.items()}
        return owned


@dataclass(slots=True)
class OwnedPartition:
    """States of a partition's counters, and which of them the changelog does not have yet.

    `stored` are recovered and not needed so far: they are read when somebody asks for them. What
    others wrote of a counter is forgotten only after this owner's own record is confirmed. Not
    thread-safe.
    """

    partition: int
    partitions: int
    writer: bytes
    states: dict[str, CounterState] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    others: dict[str, list[bytes]] = field(default_factory=dict)
    through: int = NOTHING_DECIDED
    """The greatest of any counter."""
    _changed: dict[str, None] = field(default_factory=dict)

    def take(self, offset: int, timestamp_ms: int, value: bytes | None) -> Became:
        """Decide one record of the log. Never raises for what it holds."""
        try:
            command = read_command(value)
        except BadInputError as error:
            return Became(Outcome.UNREADABLE, str(error))
        right = counter_partition(command.counter, 0, self.partitions)
        if right != self.partition:
            reason = f"counter: it belongs in partition {right}, by the CRC-32 of its name"
            return Became(Outcome.UNREADABLE, reason)
        state = self.state(command.counter)
        decided = state.decide(command, offset, timestamp_ms)
        if decided is None:
            return Became(Outcome.READ_AGAIN)
        self._changed[command.counter] = None
        self.through = max(self.through, offset)
        if decided.repeated:
            return Became(Outcome.REPEATED)
        return Became(Outcome.ACCEPTED if decided.decision.accepted else Outcome.REFUSED)

    def adopt(self, position: int) -> None:
        """Write down anew what others decided from `position` on, where this owner goes on.

        No commit covers it yet, and this owner's will. But whoever came between may still forget
        it: its tombstone is on the way, and its own record of the counter is not as far.
        """
        for counter in [one for one, found in self.summaries() if found.through >= position]:
            self.state(counter)
            self._changed[counter] = None

    def state(self, counter: str) -> CounterState:
        """The counter's state, from zero if it was never heard of."""
        found = self.states.get(counter)
        if found is None:
            stored = self.stored.pop(counter, None)
            found = self.states[counter] = CounterState() if stored is None else read_state(stored)
        return found

    def summaries(self) -> Iterator[tuple[str, Summary]]:
        """What there is of every counter, for reading."""
        for counter, value in self.stored.items():
            yield counter, summary_of(value)
        for counter, state in self.states.items():
            yield counter, Summary(state.value, state.through, state.log_ms)

    def unwritten(self) -> tuple[list[str], list[ChangelogRecord]]:
        """Counters that changed since the last call, and their records to write now."""
        counters, self._changed = list(self._changed), {}
        records: list[ChangelogRecord] = [
            (record_key(counter, self.writer), record_value(self.states[counter]))
            for counter in counters
        ]
        return counters, records

    def confirmed(self, counters: Iterable[str]) -> list[ChangelogRecord]:
        """The records of these are in the changelog: tombstones of what others wrote of them."""
        return [(key, None) for counter in counters for key in self.others.pop(counter, ())]
