"""A filter of members that this version stored is read by every later one.

Its bits have no head of their own: the format of the changelog, which is in the key of each record,
stands for their hash and for where they are. Another hash gives as many bytes, which would be read
without a word, and members would count again. So a change of either needs another format.
"""

from hashlib import blake2b

import msgspec
import numpy as np

from pipeline.shard import Fetched, Row, Shard
from tests.unit.formats.shards import counts, recovered
from tests.unit.formats.stored import pairs

FIXTURE = "changelog-2-filter.json"
T0_MS = 1_760_000_400_000
EARLY = [f"early-{number}" for number in range(4_400)]
"""Those of the whole filter, in their order."""

LATE = [f"late-{number}" for number in range(5)]
"""Those who were added to it by number."""

STAGES = ((4_096, 4, 3_193), (16_384, 5, 15_725))
"""How many members each is for, how many bits a member has, and its bytes: for an error of 0.1."""


def absorb(shard: Shard, members: list[str]) -> None:
    first, end = shard.position, shard.position + len(members)
    rows = [
        Row(offset, 0, "seen:page", "", T0_MS, 1, None, member)
        for offset, member in enumerate(members, first)
    ]
    told = Fetched(np.arange(first, end), np.full(len(members), T0_MS), end)
    assert shard.absorb_rows(rows, told) == []


def bits_of(member: str, hashes: int, size: int) -> set[int]:
    digest = blake2b(f"seen:page\0{member}".encode(), digest_size=16).digest()
    high, low = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
    return {(high + number * (low | 1)) % 2**64 % (8 * size) for number in range(hashes)}


def filled(members: list[str]) -> tuple[int, bytes]:
    """How many a filter takes for new ones, and its bits, by the definition."""
    found: list[set[int]] = [set() for _ in STAGES]
    added = [0 for _ in STAGES]
    for member in members:
        bits = [bits_of(member, hashes, size) for _, hashes, size in STAGES]
        if any(own <= known for own, known in zip(bits, found, strict=True)):
            continue
        stage = next(number for number, (room, *_) in enumerate(STAGES) if added[number] < room)
        found[stage] |= bits[stage]
        added[stage] += 1
    whole = bytearray()
    for known, (*_, size) in zip(found, STAGES, strict=True):
        whole += sum(1 << bit for bit in known).to_bytes(size, "little")
    return sum(added), bytes(whole)


def test_a_stored_filter_knows_its_members_and_nobody_else() -> None:
    found = recovered(pairs(FIXTURE))
    assert found.position(4_405) == 4_405
    shard = found.resume(4_405)
    [(p, n, through, duplicates)] = counts(shard).values()
    assert (p, n, through, duplicates) == (4_344, 0, 4_404, 61)
    absorb(shard, [*EARLY, *LATE])
    [(p, n, _, duplicates)] = counts(shard).values()
    assert (p, n, duplicates) == (4_344, 0, 61 + 4_405), "who is in counts no second time"
    absorb(shard, [f"stranger-{number}" for number in range(1_000)])
    [(p, *_)] = counts(shard).values()
    assert p > 4_344 + 900


def test_bits_of_a_filter_are_where_the_definition_has_them() -> None:
    records = [(msgspec.msgpack.decode(key), value) for key, value in pairs(FIXTURE)]
    whole, added = ((key, value) for key, value in records if key[1] == "filter")
    assert (whole[0][7], whole[1]) == filled(EARLY)
    keys = [blake2b(f"seen:page\0{one}".encode(), digest_size=16).digest() for one in LATE]
    assert (added[0][7], added[1]) == (whole[0][7], b"".join(keys))
