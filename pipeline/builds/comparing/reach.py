"""Up to where two builds can be compared fairly, shard by shard. Pure.

A cell changes only while its slot is open, so slots that are over in both builds must be equal,
however far each of them is. Where both are equally far, so must be those that are open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.builds.comparing.compared import ShardCompared
from pipeline.placing import slot_of
from pipeline.rollup.retention import end_ms
from pipeline.slots import incarnation_of

if TYPE_CHECKING:
    from datetime import date

Pair = tuple[str, int]
"""A replica's name, with its incarnation, and a shard."""

FOREVER_MS = (2**32 - 1) * 1000
"""The last moment that ClickHouse's DateTime knows."""

OFFSET_MAX = 2**63 - 1
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Position:
    """How far a build is in a shard. `cells_through` is the greatest `through` of a cell in slots
    that were open there: beyond `through` while a flush is under way."""

    through: int
    log_ms: int
    checkpoint_through: int = -1
    cells_through: int = -1


Positions = Mapping[Pair, Position]


@dataclass(frozen=True, slots=True)
class Reach:
    """Slots before a pair's moment in `until_ms` are compared; all of them where no build has a
    position for the pair: nobody counts there, so nothing may change.

    So are slots from `beyond_ms` on, which nobody can have counted yet. `old_rolled_ms` and
    `new_rolled_ms` are up to where the builds are rolled up, `letters_through` and
    `flushed_through` up to which offsets of a shard both have written dead letters and the rest.
    """

    until_ms: Mapping[Pair, int]
    beyond_ms: int = FOREVER_MS
    old_rolled_ms: Mapping[Pair, int] = field(default_factory=dict)
    new_rolled_ms: Mapping[Pair, int] = field(default_factory=dict)
    letters_through: Mapping[int, int] = field(default_factory=dict)
    flushed_through: Mapping[int, int] = field(default_factory=dict)

    @property
    def all_until_ms(self) -> int:
        """Up to where every shard is compared."""
        return min(self.until_ms.values(), default=FOREVER_MS)

    @property
    def rolled_ms(self) -> dict[Pair, int]:
        """Up to where shards are rolled up in both builds."""
        return {
            pair: min(self.old_rolled_ms.get(pair, 0), self.new_rolled_ms.get(pair, 0))
            for pair in self.until_ms
        }

    def is_rolled(self, day: date) -> bool:
        """Whether every shard is rolled up past a day in both builds."""
        return all(at_ms >= end_ms(day) for at_ms in self.rolled_ms.values())


def reach(
    old: Positions,
    new: Positions,
    old_rolled: Mapping[Pair, int] | None = None,
    new_rolled: Mapping[Pair, int] | None = None,
) -> Reach:
    """How far two builds can be compared; the last two have up to where each is rolled up, by the
    replica's name without its incarnation."""
    newest = _newest_incarnations(old, new)
    pairs = sorted({*old, *new})
    until_ms = {pair: _until_ms(pair, old, new, newest) for pair in pairs}
    shards = {shard: [pair for pair in pairs if pair[1] == shard] for _, shard in pairs}
    through = {
        shard: (
            _least(theirs, until_ms, old, new, "checkpoint_through"),
            _least(theirs, until_ms, old, new, "through"),
        )
        for shard, theirs in shards.items()
    }
    logs_ms = [position.log_ms for build in (old, new) for position in build.values()]
    return Reach(
        until_ms=until_ms,
        beyond_ms=min(max(logs_ms, default=FOREVER_MS) + DAY_MS, FOREVER_MS),
        old_rolled_ms={pair: _rolled_ms(pair, old_rolled or {}) for pair in pairs},
        new_rolled_ms={pair: _rolled_ms(pair, new_rolled or {}) for pair in pairs},
        letters_through={shard: letters for shard, (letters, _) in through.items()},
        flushed_through={shard: flushed for shard, (_, flushed) in through.items()},
    )


def unmoved(
    reached: Reach, before: tuple[Positions, Positions], after: tuple[Positions, Positions]
) -> Reach:
    """What of `reached` holds for rows that were read between two looks at positions: it was made
    of those `before`.

    Slots that are open can be compared only where both builds stood still meanwhile.
    """
    until_ms = dict(reached.until_ms)
    for pair, at_ms in reached.until_ms.items():
        stood = [build[pair] for build in before if pair in build]
        stands = [build[pair] for build in after if pair in build]
        if at_ms == FOREVER_MS and list(map(_place, stood)) != list(map(_place, stands)):
            until_ms[pair] = slot_of(min(position.log_ms for position in stood))
    return replace(reached, until_ms=until_ms)


def least(one: Reach, other: Reach) -> Reach:
    """`one`, but no further than `other` is."""
    until_ms = {pair: min(at, other.until_ms.get(pair, at)) for pair, at in one.until_ms.items()}
    return replace(one, until_ms=until_ms)


def _place(position: Position) -> tuple[int, int]:
    return position.through, position.cells_through


def shards_compared(
    builds: tuple[int, int],
    old: Positions,
    new: Positions,
    reached: Reach,
    cells: Mapping[Pair, int],
) -> list[ShardCompared]:
    """The same for people. `cells` has the last offset in the cells that are compared."""
    found = []
    for pair, until_ms in sorted(reached.until_ms.items(), key=lambda one: (one[0][1], one[0][0])):
        positions = old.get(pair), new.get(pair)
        is_all = until_ms == FOREVER_MS
        missing = [
            str(build)
            for build, position in zip(builds, positions, strict=True)
            if position is None and not is_all
        ]
        whole = [position.through for position in positions if position] if is_all else []
        found.append(
            ShardCompared(
                replica=pair[0],
                shard=pair[1],
                old_through=positions[0].through if positions[0] else None,
                new_through=positions[1].through if positions[1] else None,
                through=min(whole) if whole else cells.get(pair),
                until_ms=None if is_all or missing else until_ms,
                why=f"build {missing[0]} has not counted it" if missing else "",
            )
        )
    return found


def _newest_incarnations(old: Positions, new: Positions) -> dict[Pair, int]:
    """Of every shard, by the replica's name alone."""
    newest: dict[Pair, int] = {}
    for replica, shard in (*old, *new):
        name = (_name(replica), shard)
        newest[name] = max(newest.get(name, 0), incarnation_of(replica))
    return newest


def _until_ms(pair: Pair, old: Positions, new: Positions, newest: Mapping[Pair, int]) -> int:
    if incarnation_of(pair[0]) < newest[_name(pair[0]), pair[1]]:
        # The log that it was counted from is gone: what there is of it was carried over.
        return FOREVER_MS
    if pair not in old or pair not in new:
        return 0
    before, after = old[pair], new[pair]
    if before.through == after.through >= max(before.cells_through, after.cells_through):
        return FOREVER_MS
    return slot_of(min(before.log_ms, after.log_ms))


def _least(
    pairs: list[Pair], until_ms: Mapping[Pair, int], old: Positions, new: Positions, name: str
) -> int:
    """An offset that both builds have passed; of a log that was made anew, in its newest one."""
    if not all(until_ms[pair] for pair in pairs):
        return -1
    pair = max(pairs, key=lambda one: incarnation_of(one[0]))
    known = [int(getattr(build[pair], name)) for build in (old, new) if pair in build]
    return min(known, default=-1)


def _rolled_ms(pair: Pair, rolled: Mapping[Pair, int]) -> int:
    return rolled.get((_name(pair[0]), pair[1]), 0)


def _name(replica: str) -> str:
    return replica.partition("~")[0]
