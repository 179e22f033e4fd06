"""What a strict counter is, and how one command changes it. Pure.

A state is a function of the counter's records in the log up to `through`: their order, bytes and
timestamps. So whoever decides a command, an owner, its successor or one that does not know it was
replaced, decides the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.strict.windows import Used, WindowOf

if TYPE_CHECKING:
    from schemas.strict import Command

NOTHING_DECIDED = -1

VALUE_MAX = 2**62
"""A value never goes beyond it: an increment that would is refused."""

WINDOWS_MAX = 4
"""How many different windows a counter keeps while something in them counts. Each has a limit of
its own; an acquire that would need one more is refused."""

_ID_BYTES = 16


class Decision(NamedTuple):
    """The answer to one command.

    `remaining` is what could still be taken afterwards: down to the floor, or up to the limit in
    this window. Of an increment it is the value.
    """

    accepted: bool
    remaining: int


class Decided(NamedTuple):
    """What a command is answered, and whether that was decided before."""

    decision: Decision
    repeated: bool


class Known(NamedTuple):
    """A decision, and the log time it was made at."""

    decision: Decision
    log_ms: int


def id_digest(id_: str) -> bytes:
    """What an id is remembered by."""
    return hashlib.blake2b(id_.encode(), digest_size=_ID_BYTES).digest()


@dataclass(slots=True)
class CounterState:
    """One strict counter. `log_ms` is the greatest timestamp of its records; ids are in the order
    in which they were decided, the oldest first. Not thread-safe."""

    value: int = 0
    through: int = NOTHING_DECIDED
    log_ms: int = 0
    windows: dict[WindowOf, Used] = field(default_factory=dict)
    ids: dict[bytes, Known] = field(default_factory=dict)

    def decide(self, command: Command, offset: int, timestamp_ms: int) -> Decided | None:
        """The answer to the command at an offset; None where it was counted before.

        An id that is known has its first answer again, whatever is asked with it now, and changes
        nothing else.
        """
        if offset <= self.through:
            return None
        self.through = offset
        self.log_ms = max(self.log_ms, timestamp_ms)
        self._forget_older_than(self.log_ms - command.ids_horizon_ms)
        digest = id_digest(command.id)
        known = self.ids.get(digest)
        if known is not None:
            return Decided(known.decision, repeated=True)
        decision = self._decide(command)
        self.ids[digest] = Known(decision, self.log_ms)
        while len(self.ids) > command.ids_kept:
            del self.ids[next(iter(self.ids))]
        return Decided(decision, repeated=False)

    def _decide(self, command: Command) -> Decision:
        match command.op:
            case "increment":
                return self._increment(command.amount)
            case "decrement":
                return self._decrement(command.amount, command.floor)
            case "acquire":
                return self._acquire(command)

    def _increment(self, amount: int) -> Decision:
        fits = self.value + amount <= VALUE_MAX
        if fits:
            self.value += amount
        return Decision(fits, self.value)

    def _decrement(self, amount: int, floor: int) -> Decision:
        has_enough = self.value - amount >= floor
        if has_enough:
            self.value -= amount
        return Decision(has_enough, max(0, self.value - floor))

    def _acquire(self, command: Command) -> Decision:
        assert command.limit is not None
        assert command.window_ms is not None
        used = self._used(WindowOf(command.window == "sliding", command.window_ms))
        if used is None:
            return Decision(False, 0)
        left = command.limit - used.at(self.log_ms)
        has_room = command.amount <= left and self.value + command.amount <= VALUE_MAX
        if has_room:
            used.grant(command.amount, self.log_ms)
            self.value += command.amount
            left -= command.amount
        return Decision(has_room, max(0, left))

    def _used(self, of: WindowOf) -> Used | None:
        """What was granted in a window; None where there are too many others."""
        for other in [one for one in self.windows.values() if not one.at(self.log_ms)]:
            del self.windows[other.of]
        if of not in self.windows and len(self.windows) == WINDOWS_MAX:
            return None
        return self.windows.setdefault(of, Used(of))

    def _forget_older_than(self, log_ms: int) -> None:
        while self.ids and self.ids[first := next(iter(self.ids))].log_ms < log_ms:
            del self.ids[first]
