"""The shard plan as producers use it, and the records it is made of. Pure.

All of it is in the compacted topic `tally.shard-plan`, by key:

    rules             the counting rules, with each family's `shards`
    shards:<counter>  into how many shards the leader split a hot counter; a tombstone is one
    hint:<counter>    at least how many somebody asked for, and until when
    over-sharded      counters that have many shards for little, to be told to people

A record that nobody understands is passed over: a plan spreads load and decides no count. Only
rules that cannot be read are refused, since they say which partition an id goes to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec

from pipeline.rules import CountingRules, parse_rules
from schemas.rules import SHARDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHARDS_PREFIX = b"shards:"
HINT_PREFIX = b"hint:"
RULES_KEY = b"rules"
OVER_SHARDED_KEY = b"over-sharded"

_Shards = Annotated[int, msgspec.Meta(ge=1, le=SHARDS_MAX)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Record = TypeVar("_Record", bound=msgspec.Struct)


class Split(msgspec.Struct, frozen=True):
    """A counter's shards as the leader decided: by which rate, why and when."""

    n: _Shards
    rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    why: str = ""
    at_ms: _Milliseconds = 0


class Hint(msgspec.Struct, frozen=True):
    """At least how many shards a counter shall have until a moment, as a number or by its rate."""

    n: _Shards
    until_ms: _Milliseconds
    by: Literal["n", "expect"] = "n"


class OverSharded(msgspec.Struct, frozen=True):
    """Counters whose fixed or hinted shards have next to nothing to do, with how many these are."""

    counters: dict[str, int] = {}
    at_ms: _Milliseconds = 0


@dataclass(frozen=True)
class Plan:
    """What a producer must know to choose a partition, at one moment.

    `shards` are the counters that the leader split, `hints` those of hints that have not expired.
    """

    partitions: int
    id_partitions: int
    rules: CountingRules | None = None
    shards: Mapping[str, int] = field(default_factory=dict)
    hints: Mapping[str, Hint] = field(default_factory=dict)

    @cached_property
    def fixes_shards(self) -> bool:
        """Whether any family fixes how many shards its counters have."""
        rules = self.rules or _DEFAULT_RULES
        return any(family.shards for family in (rules.default, *rules.families.values()))

    def once_per_member(self, counters: Iterable[str]) -> list[bool]:
        """Of which counters each member counts once, so that all it does must meet."""
        rules = self.rules or _DEFAULT_RULES
        return [rules.of(counter).once_per_member for counter in counters]

    @cached_property
    def split(self) -> Mapping[str, int]:
        """The counters that have more than one shard by the plan or by a hint, with how many."""
        named = {name: self.shards_of(name) for name in {*self.shards, *self.hints}}
        return {name: n for name, n in named.items() if n > 1}

    def shards_of(self, counter: str) -> int:
        """Into how many shards a producer spreads a counter now: 1 up to the partitions."""
        wanted = fixed_shards(self.rules, counter) or self.shards.get(counter, 1)
        hint = self.hints.get(counter)
        if hint is not None:
            wanted = max(wanted, hint.n)
        return max(1, min(wanted, self.partitions))


def fixed_shards(rules: CountingRules | None, counter: str) -> int:
    """How many shards the counter's family fixes; 0 where they are adaptive."""
    return (rules or _DEFAULT_RULES).of(counter).shards


_DEFAULT_RULES = CountingRules()


@dataclass
class PlanRecords:
    """What the records of the topic amount to, read in their order. Not thread-safe."""

    rules: CountingRules | None = None
    splits: dict[str, Split] = field(default_factory=dict)
    hints: dict[str, Hint] = field(default_factory=dict)
    over_sharded: OverSharded = field(default_factory=OverSharded)

    def take(self, key: object, value: bytes | None) -> None:
        """The next record. Raises BadInputError for rules that are none, and changes nothing."""
        if not isinstance(key, bytes):
            return
        if key == RULES_KEY:
            self._take_rules(value)
        elif key.startswith(SHARDS_PREFIX):
            _take(self.splits, key.removeprefix(SHARDS_PREFIX), value, Split)
        elif key.startswith(HINT_PREFIX):
            _take(self.hints, key.removeprefix(HINT_PREFIX), value, Hint)
        elif key == OVER_SHARDED_KEY:
            found: dict[str, OverSharded] = {}
            _take(found, b"", value, OverSharded)
            self.over_sharded = found.get("", OverSharded())

    def live_hints(self, now_ms: int) -> dict[str, Hint]:
        """Those that have not expired."""
        return {counter: hint for counter, hint in self.hints.items() if hint.until_ms > now_ms}

    def plan(self, partitions: int, id_partitions: int, now_ms: int) -> Plan:
        """As producers use it from now on. A copy."""
        shards = {counter: split.n for counter, split in self.splits.items()}
        return Plan(partitions, id_partitions, self.rules, shards, self.live_hints(now_ms))

    def _take_rules(self, value: bytes | None) -> None:
        if value is None:
            return
        rules = parse_rules(value)
        if self.rules is None or rules.supersedes(self.rules):
            self.rules = rules


def _take(found: dict[str, _Record], name: bytes, value: bytes | None, kind: type[_Record]) -> None:
    try:
        counter = name.decode()
        record = None if value is None else msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if record is None:
        found.pop(counter, None)
    else:
        found[counter] = record
