"""No schedule of rollups finds a difference, and every safeguard that is taken away is missed."""

import random
from collections.abc import Iterable

import pytest

from tests.simulation.rollups import Schedule
from tests.simulation.rollups_variants import RARELY_CAUGHT, VARIANTS, Variant, first_caught


def problems_of(seeds: Iterable[int]) -> list[tuple[int, str]]:
    """Each with its seed, which plays the same schedule again."""
    played = (Schedule(seed).run() for seed in seeds)
    return [(one.seed, one.problem) for one in played if one.problem is not None]


def test_no_schedule_of_rollups_finds_a_difference() -> None:
    assert problems_of(range(60)) == []


def test_no_schedule_that_catches_a_broken_rollup_finds_a_difference_in_the_right_one() -> None:
    assert problems_of(RARELY_CAUGHT.values()) == []


def test_no_schedule_of_rollups_of_a_new_seed_finds_a_difference() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    print(f"seed {seed}")
    assert problems_of(range(seed, seed + 60)) == []


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_no_schedule_of_many_rollups_finds_a_difference() -> None:
    assert problems_of(range(1_000_000, 1_010_000)) == []


def test_the_same_seed_plays_the_same_rollups() -> None:
    one, two = Schedule(7).run(), Schedule(7).run()
    assert (one.drops, one.store.tables) == (two.drops, two.store.tables)


def test_schedules_come_to_drops() -> None:
    assert sum(Schedule(seed).run().drops for seed in range(10)) > 10


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_broken_rollup_is_caught(variant: Variant) -> None:
    assert first_caught(variant, range(2_000)) is not None
