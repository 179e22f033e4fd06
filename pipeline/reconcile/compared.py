"""What is held against each other, and what can come of it. Data, and texts for people. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED_MAX = 4
"""So many shards are named in one line."""


class Owner(NamedTuple):
    """Who counted: the cluster's name in cells, and the partition."""

    replica: str
    shard: int


class SlotOf(NamedTuple):
    """A slot as one owner counted it."""

    replica: str
    shard: int
    slot_ms: int

    @property
    def owner(self) -> Owner:
        """Who counted it."""
        return Owner(self.replica, self.shard)


class Flushed(NamedTuple):
    """How far an owner is in ClickHouse."""

    through: int
    log_ms: int


class CellSums(NamedTuple):
    """What the cells of a slot add up to, and the last offset that any of them counted."""

    p: int
    n: int
    duplicates: int
    through: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A number that is not what it must be: what the ledger, ClickHouse and the log say of it.

    With a `grain` it is of hours or days, and of the whole day that begins at `slot_ms`.
    """

    shard: int
    slot_ms: int
    what: str
    ledger: int | None = None
    clickhouse: int | None = None
    log: int | None = None
    grain: str | None = None

    def text(self) -> str:
        """For people, in one line."""
        said = {"ledger": self.ledger, "ClickHouse": self.clickhouse, "log": self.log}
        numbers = ", ".join(f"{who} {said[who]}" for who in said if said[who] is not None)
        at = rfc3339(self.slot_ms)
        place = f"slot {at}," if self.grain is None else f"day {at[:10]}, {self.grain}"
        return f"shard {self.shard}, {place} {self.what}: {numbers}"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "slot": rfc3339(self.slot_ms)}


@dataclass(slots=True)
class Reconciled:
    """What came of comparing: through which offset each shard was looked at, and what differs."""

    build: int
    through: dict[int, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    checked_at_ms: int = 0
    took_s: float = 0.0

    @property
    def agrees(self) -> bool:
        """True when nothing differs."""
        return not self.differences

    def line(self) -> str:
        """That it agrees, in one line."""
        return f"log and ClickHouse agree through {_offsets(self.through)}"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "agrees": self.agrees,
            "build": self.build,
            "through": {str(shard): offset for shard, offset in sorted(self.through.items())},
            "checked_at": rfc3339(self.checked_at_ms),
            "differences": [one.document() for one in self.differences],
        }


def _offsets(through: dict[int, int]) -> str:
    if not through:
        return "nothing: no shard was counted yet"
    named: Sequence[tuple[int, int]] = sorted(through.items())
    text = ", ".join(f"{offset} (shard {shard})" for shard, offset in named[:NAMED_MAX])
    if len(named) > NAMED_MAX:
        text += f" and as far in {len(named) - NAMED_MAX} more shards"
    return f"offset {text}"
