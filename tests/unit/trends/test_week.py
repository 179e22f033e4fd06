"""The short form of `python -m benchmarks.trends`: fewer counters, fewer minutes."""

from functools import cache

import pytest

from benchmarks._watch import watch
from benchmarks._week import LAST_DAY, PHENOMENA, REGIONS, Week, make_week
from pipeline.rules import TrendRules

SEEDS = (1, 2)
BY_NAME = {one.name: one for one in PHENOMENA}
EVERYWHERE = (*REGIONS, "*")


@cache
def week(seed: int) -> Week:
    return make_week(seed, background=300)


def entered(seed: int, name: str, first: int, end: int) -> dict[str, int]:
    """By region the window the phenomenon entered in; minutes are since its start."""
    start = week(seed).starts[name]
    (watched,) = watch(week(seed), [TrendRules()], start + first, start + end)
    return {
        region: spans[0][0] - start
        for region in EVERYWHERE
        if (spans := watched.spans.get((region, f"tag:{name}")))
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["burst", "busy burst"])
def test_a_burst_is_found_within_two_windows_and_worldwide(seed: int, name: str) -> None:
    found = entered(seed, name, -10, 10)
    assert 0 <= found["eu"] <= 1
    assert 0 <= found["*"] <= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_burst_in_one_region_is_not_worldwide(seed: int) -> None:
    assert set(entered(seed, "local burst", -5, 20)) == {"eu"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_riser_is_found_once_it_has_risen_and_not_before(seed: int) -> None:
    assert not entered(seed, "riser", -10, 5)
    rising = BY_NAME["riser"].ramp
    assert "*" in entered(seed, "riser", rising - 5, rising + 5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["giant", "fluke", "bot"])
def test_giant_fluke_and_bot_are_not_found(seed: int, name: str) -> None:
    assert not entered(seed, name, -5, 25)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_ordinary_hour_raises_hardly_an_alarm(seed: int) -> None:
    (watched,) = watch(week(seed), [TrendRules()], LAST_DAY, LAST_DAY + 60)
    assert len(watched.spans) <= 1, watched.spans


def test_the_same_seed_makes_the_same_week_and_the_same_transitions() -> None:
    again = make_week(1, background=300)
    start = again.starts["burst"]
    assert start == week(1).starts["burst"]
    spans = [watch(one, [TrendRules()], start - 5, start + 5)[0].spans for one in (again, week(1))]
    assert spans[0] == spans[1]
    assert spans[0]
