"""A shard counts a member once per counter until taken back, by rows and by columns alike."""

from collections.abc import Callable

import numpy as np
import pytest

from pipeline.cells import CellKey
from pipeline.once.members import DELTA_REASON, MEMBER_REASON, TAKE_BACK_REASON
from pipeline.placing import Misplaced
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Fetched, Row, Shard
from tests.simulation.worker import columns_of

T0 = 1_760_000_400_000
ONCE = FamilyRules(once_per_member=True)
RULES = CountingRules(1, families={"likes": ONCE})
Like = tuple[str, int, str | None]
Absorb = Callable[..., list[str]]


def by_rows(shard: Shard, *likes: Like, **other: str) -> list[str]:
    return _absorb(shard, shard.absorb_rows, likes, **other)


def by_columns(shard: Shard, *likes: Like, **other: str) -> list[str]:
    return _absorb(
        shard, lambda rows, told: shard.absorb_columns(columns_of(rows), told), likes, **other
    )


def _absorb(
    shard: Shard,
    absorb: Callable[[list[Row], Fetched], list[Misplaced]],
    likes: tuple[Like, ...],
    region: str = "",
    id_: str | None = None,
) -> list[str]:
    start = shard.position
    rows = [
        Row(start + i, 0, counter, region, T0, delta, id_, member)
        for i, (counter, delta, member) in enumerate(likes)
    ]
    offsets = np.arange(start, start + len(likes))
    told = Fetched(offsets, np.full(len(likes), T0), start + len(likes))
    return [one.reason for one in absorb(rows, told)]


@pytest.fixture(params=[by_rows, by_columns], ids=["rows", "columns"])
def absorb(request: pytest.FixtureRequest) -> Absorb:
    found: Absorb = request.param
    return found


def counts(shard: Shard) -> dict[tuple[str, str], tuple[int, int, int]]:
    """By counter and region: p, n and duplicates."""
    values = shard.slots[T0 // 60_000 * 60_000].values()
    keys = (CellKey.parse(key) for key in values.keys)
    numbers = zip(values.p.tolist(), values.n.tolist(), values.duplicates.tolist(), strict=True)
    return {(key.counter, key.region): one for key, one in zip(keys, numbers, strict=True)}


def test_a_member_counts_once_until_taken_back(absorb: Absorb) -> None:
    shard = Shard(0, rules=RULES)
    assert not absorb(shard, ("likes:a", 1, "ann"), ("likes:a", 1, "ann"), ("likes:a", 1, "bob"))
    assert counts(shard) == {("likes:a", ""): (2, 0, 1)}
    assert not absorb(shard, ("likes:a", -1, "ann"), ("likes:a", -1, "ann"))
    assert counts(shard) == {("likes:a", ""): (2, 1, 2)}
    assert not absorb(shard, ("likes:a", 1, "ann"), ("likes:b", 1, "ann"))
    assert counts(shard) == {("likes:a", ""): (3, 1, 2), ("likes:b", ""): (1, 0, 0)}


def test_who_is_not_in_cannot_be_taken_back(absorb: Absorb) -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, ("likes:a", -1, "ann"), ("likes:a", 1, "ann"))
    assert counts(shard) == {("likes:a", ""): (1, 0, 1)}


def test_a_member_is_in_whatever_the_region_and_leaves_where_it_says(absorb: Absorb) -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, ("likes:a", 1, "ann"), region="eu")
    absorb(shard, ("likes:a", 1, "ann"), ("likes:a", -1, "ann"), region="us")
    assert counts(shard) == {("likes:a", "eu"): (1, 0, 0), ("likes:a", "us"): (0, 1, 1)}


def test_other_families_count_as_ever(absorb: Absorb) -> None:
    shard = Shard(0, rules=RULES)
    assert not absorb(shard, *[("views:a", 5, "ann")] * 2, ("views:a", 1, None))
    assert counts(shard) == {("views:a", ""): (11, 0, 0)}


def test_what_says_no_member_or_another_delta_is_refused_and_claims_nothing(
    absorb: Absorb,
) -> None:
    shard = Shard(0, rules=RULES)
    refused = absorb(
        shard, ("likes:a", 1, None), ("likes:a", 2, "ann"), ("likes:a", -2, "ann"), id_="x"
    )
    assert refused == [MEMBER_REASON, DELTA_REASON, DELTA_REASON]
    absorb(shard, ("likes:a", 1, "ann"), id_="x")
    assert counts(shard) == {("likes:a", ""): (1, 0, 0)}


def test_a_duplicate_id_changes_nobody(absorb: Absorb) -> None:
    shard = Shard(0, rules=RULES)
    absorb(shard, ("likes:a", 1, "ann"), id_="x")
    absorb(shard, ("likes:a", -1, "ann"), id_="x")
    absorb(shard, ("likes:a", 1, "ann"), id_="y")
    assert counts(shard) == {("likes:a", ""): (1, 0, 2)}


def test_a_filter_takes_nobody_back(absorb: Absorb) -> None:
    lossy = FamilyRules(once_per_member=True, once_per_error=0.001)
    shard = Shard(0, rules=CountingRules(1, families={"likes": lossy}))
    assert absorb(shard, ("likes:a", 1, "ann"), ("likes:a", -1, "ann")) == [TAKE_BACK_REASON]


@pytest.mark.parametrize(
    ("rules", "known"),
    [
        (CountingRules(2, families={"likes": ONCE, "views": ONCE}), True),
        (CountingRules(2, default=ONCE), True),
        (CountingRules(2), False),
        (
            CountingRules(
                2, families={"likes": FamilyRules(once_per_member=True, once_per_error=0.1)}
            ),
            False,
        ),
    ],
)
def test_members_are_known_as_long_as_nothing_is_changed_for_their_family(
    rules: CountingRules, *, known: bool
) -> None:
    shard = Shard(0, rules=RULES)
    by_rows(shard, ("likes:a", 1, "ann"))
    shard.apply(rules, shard.position)
    again = CountingRules(3, families={"likes": ONCE})
    shard.apply(again, shard.position)
    by_rows(shard, ("likes:a", 1, "ann"))
    assert counts(shard)[("likes:a", "")] == ((1, 0, 1) if known else (2, 0, 0))
