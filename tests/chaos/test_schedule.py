"""A seed makes a schedule, the same each time and everywhere."""

import subprocess
import sys
from itertools import pairwise

from tests.chaos.schedule import AT_MOST, KINDS, PAUSE_S, schedule

HOUR_S = 3600.0


def test_a_seed_makes_the_same_schedule_in_another_process() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--show", "--seed", "7", "--minutes", "3"]
    printed = [
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": hashes}
        ).stdout.splitlines()
        for hashes in ("1", "2")
    ]
    assert printed[0] == printed[1] == [str(harm) for harm in schedule(7, 180.0)]


def test_another_seed_makes_another_schedule() -> None:
    assert schedule(1, HOUR_S) != schedule(2, HOUR_S)


def test_a_longer_schedule_begins_like_a_shorter_one() -> None:
    short, long = schedule(5, 60.0), schedule(5, HOUR_S)
    assert short == long[: len(short)]


def test_every_kind_of_harm_comes_before_any_comes_again() -> None:
    kinds = [harm.kind for harm in schedule(3, HOUR_S)]
    assert sorted(kinds[: len(KINDS)]) == sorted(KINDS)
    assert len(kinds) > 10 * len(KINDS)


def test_harms_follow_each_other_within_bounds_and_rare_ones_are_rare() -> None:
    harms = schedule(4, 4 * HOUR_S)
    for harm in harms:
        least, most = KINDS[harm.kind]
        assert least <= harm.for_s <= most
        assert 0 <= harm.amount <= 1
    kinds = [harm.kind for harm in harms]
    assert {kind: kinds.count(kind) for kind in AT_MOST} == AT_MOST
    assert PAUSE_S[0] <= harms[0].at_s <= PAUSE_S[1]
    assert [harm.at_s for harm in harms] == sorted(harm.at_s for harm in harms)
    assert harms[-1].at_s < 4 * HOUR_S


def test_replays_and_new_partitions_come_throughout_half_an_hour() -> None:
    for seed in range(20):
        harms = schedule(seed, HOUR_S / 2)
        for kind in AT_MOST:
            times_s = [harm.at_s for harm in harms if harm.kind == kind]
            assert len(times_s) >= 5
            assert times_s[-1] > HOUR_S / 4
            assert min(later - earlier for earlier, later in pairwise(times_s)) > 100


def test_one_harm_alone_is_repeated_until_the_end() -> None:
    harms = schedule(1, 60.0, ["kill log"])
    assert {harm.kind for harm in harms} == {"kill log"}
    assert len(harms) > 60.0 / PAUSE_S[1]
