"""Every setting of `tally.toml` that decides counting, from its text to the cells."""

import numpy as np

from pipeline.cells import CellKey
from pipeline.rules import counting_rules
from pipeline.shard import Fetched, Row, Shard
from pipeline.slots import SLOT_MS
from schemas.families import parse_families

T0 = 1_760_000_000_000 - 1_760_000_000_000 % SLOT_MS
HOUR_MS = 3_600_000


def shard_by(text: str) -> Shard:
    """A shard that counts by a file's rules."""
    return Shard(0, rules=counting_rules(parse_families(text)))


def count(shard: Shard, offset: int, *rows: Row, log_ms: int = T0) -> list[str]:
    """One record with these rows; returns why rows were refused."""
    fetched = Fetched(np.array([offset]), np.array([log_ms]), offset + 1)
    return [found.reason for found in shard.absorb_rows(rows, fetched)]


def row(
    counter: str, offset: int, *, number: int = 0, region: str = "", at_ms: int = T0, id_: str = ""
) -> Row:
    return Row(offset, number, counter, region, at_ms, 1, id_ or None)


def cells(shard: Shard) -> dict[tuple[str, str], int]:
    """What was added by counter and region, over all slots and windows."""
    found: dict[tuple[str, str], int] = {}
    for slot in shard.slots.values():
        values = slot.values()
        for key, p in zip(map(CellKey.parse, values.keys), values.p.tolist(), strict=True):
            if p:
                place = (key.counter, key.region)
                found[place] = found.get(place, 0) + p
    return found


def test_regions_off_counts_a_family_as_of_no_region() -> None:
    shard = shard_by("[families.flat]\nregions = false")
    count(shard, 0, row("flat:x", 0, region="eu"), row("likes:x", 0, number=1, region="eu"))
    assert cells(shard) == {("flat:x", ""): 1, ("likes:x", "eu"): 1}


def test_lateness_refuses_what_is_older_in_that_family_alone() -> None:
    shard = shard_by('[families.quick]\nlateness = "1h"')
    old_ms = T0 - HOUR_MS - 1
    refused = count(
        shard, 0, row("quick:x", 0, at_ms=old_ms), row("likes:x", 0, number=1, at_ms=old_ms)
    )
    assert len(refused) == 1
    assert "late" in refused[0]
    assert cells(shard) == {("likes:x", ""): 1}


def test_the_horizon_of_ids_forgets_an_id_in_that_family_alone() -> None:
    shard = shard_by('[families.brief]\nids.horizon = "10m"')
    for offset, log_ms in enumerate((T0, T0 + 600_001)):
        for number, counter in enumerate(("brief:x", "likes:x")):
            event = row(counter, offset, number=number, at_ms=log_ms, id_="same")
            count(shard, offset, event, log_ms=log_ms)
    assert cells(shard) == {("brief:x", ""): 2, ("likes:x", ""): 1}


def test_ids_per_partition_is_how_many_occurrences_of_all_families_are_remembered() -> None:
    shard = shard_by("ids_per_partition = 2")
    for offset, (counter, id_) in enumerate(
        [("a:x", "1"), ("b:x", "2"), ("a:x", "1"), ("c:x", "3"), ("b:x", "4"), ("a:x", "1")]
    ):
        count(shard, offset, row(counter, offset, id_=id_))
    # The third is a duplicate of the first; by the sixth, two others came since.
    assert cells(shard) == {("a:x", ""): 2, ("b:x", ""): 2, ("c:x", ""): 1}


def test_cells_max_lets_a_family_spill_when_it_opens_more_cells() -> None:
    shard = shard_by("[families.wide]\ncells_max = 2")
    names = ["wide:1", "wide:2", "wide:3", "wide:1", "likes:1", "likes:2", "likes:3"]
    count(shard, 0, *(row(name, 0, number=n) for n, name in enumerate(names)))
    spilled = {("wide:", ""): 1, ("wide:1", ""): 2, ("wide:2", ""): 1}
    assert cells(shard) == spilled | {(f"likes:{n}", ""): 1 for n in (1, 2, 3)}


def test_once_per_member_counts_a_member_once_in_that_family_alone() -> None:
    shard = shard_by(
        '[default]\nonce_per = "member"\n[families.views]\nonce_per = "id"\n'
        "[families.seen]\nonce_per_error = 0.01"
    )
    for offset, counter in enumerate(("likes:x", "seen:x", "views:x")):
        again = [row(counter, offset, number=n)._replace(member="ann") for n in range(3)]
        assert not count(shard, offset, *again)
        refused = count(shard, offset, row(counter, offset)._replace(delta=-1, member="ann"))
        assert len(refused) == (counter == "seen:x")
    assert cells(shard) == {("likes:x", ""): 1, ("seen:x", ""): 1, ("views:x", ""): 3}
