"""Facts about members, as tables and changelogs hold them. Pure.

A fact says that a member came into a counter, or was taken back from it, by the record at an
offset. Counter and member are told by a hash of 128 bits: two pairs with one hash do not occur, not
even on purpose. A frame is counted whole, so of several facts of one pair in one record the last is
the one that matters, and the offset alone tells which fact is newer.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Int64Column: TypeAlias = NDArray[np.int64]
    Uint64Column: TypeAlias = NDArray[np.uint64]
    Facts: TypeAlias = NDArray[np.void]

KEY_BYTES = 16

FACT = np.dtype([("high", "<u8"), ("low", "<u8"), ("at", "<i8")])
"""The two halves of a pair's hash; and twice the offset, plus one if the member is in from there.

Pairs that are added to a filter are numbered instead: `at` is the number.
"""

NEVER = -(2**62) * 2
"""The `at` of a pair without a fact: out, before every log's beginning."""


def pair_key(counter: str, member: str) -> bytes:
    """Counter and member as 16 bytes. Neither holds a NUL."""
    return blake2b(f"{counter}\0{member}".encode(), digest_size=KEY_BYTES).digest()


def pair_keys(counters: Iterable[str], members: Iterable[str]) -> list[bytes]:
    """`pair_key` of each pair."""
    return list(map(pair_key, counters, members))


def halves(keys: Sequence[bytes]) -> tuple[Uint64Column, Uint64Column]:
    """Keys as two columns of numbers, which sort as the keys do."""
    numbers = np.frombuffer(b"".join(keys), ">u8").reshape(-1, 2).astype(np.uint64)
    return numbers[:, 0].copy(), numbers[:, 1].copy()


def packed(high: Uint64Column, low: Uint64Column, at: Int64Column) -> Facts:
    """Columns as facts."""
    facts = np.empty(len(at), FACT)
    facts["high"], facts["low"], facts["at"] = high, low, at
    return facts


def no_facts() -> Facts:
    """None at all."""
    return np.empty(0, FACT)


def newest(facts: Facts) -> Facts:
    """The newest fact of each pair, sorted by pair."""
    facts = facts[np.lexsort((facts["at"], facts["low"], facts["high"]))]
    last = np.ones(len(facts), np.bool_)
    last[:-1] = (facts["high"][1:] != facts["high"][:-1]) | (facts["low"][1:] != facts["low"][:-1])
    return facts[last]


def in_order(facts: Facts) -> Facts:
    """Sorted by when they came about, so that equal sets of facts have equal bytes."""
    return facts[np.lexsort((facts["low"], facts["high"], facts["at"]))]


def looked_up(found: dict[bytes, int], keys: Sequence[bytes]) -> Int64Column:
    """What a dictionary has for each key, NEVER for those that it has not."""
    return np.fromiter(map(found.get, keys, repeat(NEVER)), np.int64, len(keys))
