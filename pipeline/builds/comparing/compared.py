"""What a comparison of two builds found, for people and for programs. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

EXAMPLES_MAX = 5
SHARDS_NAMED_MAX = 8
_NAME_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared: everything, or what a family, a counter, or a span of windows has.

    A window is in the span from `since_ms` up to `until_ms` if it begins in it. Tables that do not
    know what a scope names, such as sketches a counter, are left out.
    """

    family: str | None = None
    counter: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def names(self) -> frozenset[str]:
        """What a table must know to be compared within it."""
        asked = {
            "family": self.family is not None,
            "counter": self.counter is not None,
            "window": self.since_ms is not None or self.until_ms is not None,
        }
        return frozenset(name for name, is_asked in asked.items() if is_asked)


@dataclass(frozen=True, slots=True)
class ShardCompared:
    """How far a shard was compared, as one replica counted it.

    `old_through` and `new_through` are how far the builds are, None where one has no position.
    Slots before `until_ms` were compared, None for all, those that are open included; `through` is
    the last offset that is known to be in them. `why` says why nothing was compared.
    """

    replica: str
    shard: int
    old_through: int | None
    new_through: int | None
    through: int | None = None
    until_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A row that differs. None where a build does not have it."""

    key: Mapping[str, Any]
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None

    def values(self) -> list[str]:
        """The names of the values that differ."""
        if self.old is None or self.new is None:
            return list(self.old or self.new or {})
        return [name for name, value in self.old.items() if self.new[name] != value]


@dataclass(slots=True)
class TableCompared:
    """How many rows of a table, by key, were looked at, and how many differ."""

    table: str
    compared: int = 0
    differ: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, other: TableCompared) -> None:
        """Take in what was found of other rows of it."""
        self.compared += other.compared
        self.differ += other.differ
        self.examples += other.examples


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of it. What was not compared makes it incomplete, not different."""

    old: int
    new: int
    scope: Scope
    shards: Sequence[ShardCompared]
    tables: Sequence[TableCompared]

    @property
    def differs(self) -> bool:
        """Whether any row does."""
        return any(table.differ for table in self.tables)

    @property
    def complete(self) -> bool:
        """Whether every shard that one of the builds has was compared, and there is one."""
        return bool(self.shards) and not any(shard.why for shard in self.shards)

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {
            "old": self.old,
            "new": self.new,
            "scope": {
                "family": self.scope.family,
                "counter": self.scope.counter,
                "since": _moment(self.scope.since_ms),
                "until": _moment(self.scope.until_ms),
            },
            "differs": self.differs,
            "complete": self.complete,
            "shards": [_shard_document(shard) for shard in self.shards],
            "tables": [asdict(table) for table in self.tables],
        }


def lines(comparison: Comparison) -> Iterator[str]:
    """The comparison in lines for people; names in them are as strangers wrote them."""
    for table in comparison.tables:
        if table.compared:
            differ = f"{table.differ:,} differ" if table.differ else "none differ"
            yield f"{table.table:<{_NAME_WIDTH}} {table.compared:,} compared, {differ}"
            for example in table.examples:
                yield f"  {example_line(example, comparison.old, comparison.new)}"
    for shard in comparison.shards:
        if shard.why:
            yield f"shard {shard.shard} of {shard.replica} was not compared: {shard.why}"
    yield _verdict(comparison)


def example_line(example: Example, old: int, new: int) -> str:
    """A row that differs, in one line."""
    names = example.values()
    in_old, in_new = (_values(values, names) for values in (example.old, example.new))
    key = " ".join(text for text in map(_part, example.key, example.key.values()) if text)
    return f"{key}: {in_old} in build {old}, {in_new} in build {new}"


def _part(name: str, value: Any) -> str:
    """A part of a key; what needs no name has none."""
    text = str(value)
    if name in {"counter", "region", "window", "family", "id"}:
        return text
    return f"{name} {text}" if text else ""


def _values(values: Mapping[str, Any] | None, names: Sequence[str]) -> str:
    if values is None:
        return "none"
    return ", ".join(f"{name} {values[name]}" for name in names)


def _verdict(comparison: Comparison) -> str:
    builds = f"builds {comparison.old} and {comparison.new}"
    compared = [shard for shard in comparison.shards if not shard.why]
    if comparison.differs:
        return f"{builds} differ"
    if not compared:
        return f"{builds} have no shard that could be compared"
    every = "" if comparison.complete else ", of the shards that both have"
    return f"{builds} agree {_through(compared)}{every}"


def _through(shards: Sequence[ShardCompared]) -> str:
    known = [shard.through for shard in shards if shard.through is not None]
    if len(known) < len(shards):
        until_ms = min(
            (shard.until_ms for shard in shards if shard.until_ms is not None), default=0
        )
        return f"in all slots up to {rfc3339(until_ms)} of every shard"
    if len(shards) > SHARDS_NAMED_MAX:
        return f"through offsets {min(known):,} to {max(known):,} of {len(shards)} shards"
    parts = [f"{shard.through:,} of shard {shard.shard}" for shard in shards]
    return f"through offset {', '.join(parts)}"


def _shard_document(shard: ShardCompared) -> dict[str, Any]:
    document = asdict(shard)
    document["until"] = _moment(document.pop("until_ms"))
    return {**document, "compared": not shard.why}


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
