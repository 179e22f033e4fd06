"""Two sets of numbers side by side, and what is the matter where they differ. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.kit.registers import registers_of, uniques_of

Kind = Literal[
    "lost", "doubled", "misplaced", "estimate", "ranking", "letter", "answer", "log", "decision"
]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that is not what it must be."""

    kind: Kind
    where: str
    key: Key
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{self.kind}: {self.where} {self.key}: {self.found} instead of {self.expected}"


def compared(where: str, expected: Mapping[Any, int], found: Mapping[Any, int]) -> list[Difference]:
    """What differs between counts whose keys begin with their counter.

    `lost` and `doubled` where a counter has less or more than it must, whatever was sent twice or
    made up being the same to it; `misplaced` where it has as much as it must, but in other places.
    """
    excess: dict[Any, int] = defaultdict(int)
    for key, count in found.items():
        excess[key[0]] += count
    for key, count in expected.items():
        excess[key[0]] -= count
    kinds: dict[bool, Kind] = {True: "doubled", False: "lost"}
    return [
        Difference(
            kinds[excess[key[0]] > 0] if excess[key[0]] else "misplaced",
            where,
            key,
            expected.get(key),
            found.get(key),
        )
        for key in sorted({**expected, **found})
        if expected.get(key) != found.get(key)
    ]


def compared_sizes(
    where: str,
    expected: Mapping[Any, set[str]],
    found: Mapping[Any, tuple[int, int, int]],
) -> list[Difference]:
    """Estimates `(uniques, low, high)` beside the sets they are of.

    An estimate must be the one of the set's own registers: how far that is from the set's size is
    chance, of which among many sets some have more. So must its bounds. A set without an estimate
    is lost; an estimate of nothing is doubled.
    """
    differences = []
    for key in sorted({**expected, **found}):
        members = expected.get(key, set())
        if key not in found:
            differences.append(Difference("lost", where, key, len(members), None))
            continue
        if not members:
            differences.append(Difference("doubled", where, key, None, found[key]))
            continue
        told = uniques_of(registers_of(members))
        if found[key] not in told:
            differences.append(Difference("estimate", where, key, min(told), found[key]))
    return differences


def compared_rankings(
    where: str,
    expected: Mapping[Any, list[tuple[str, int]]],
    found: Mapping[Any, list[tuple[str, int]]],
) -> list[Difference]:
    """Rankings in their order: who is first, and with how much."""
    return [
        Difference("ranking", where, key, expected.get(key), found.get(key))
        for key in sorted({**expected, **found})
        if expected.get(key) != found.get(key)
    ]
