"""A seed makes a schedule, the same each time and everywhere."""

import subprocess
import sys
from itertools import pairwise

import pytest

from tests.chaos.schedule import (
    AT_MOST,
    IMPOSSIBLE,
    KINDS,
    LULL_KILL,
    LULL_KINDS,
    LULL_MORE_S,
    LULL_PAUSE_S,
    LULL_S,
    LULLS_AT_S,
    PAUSE_S,
    REPLAY,
    Harm,
    lull_ends,
    possible,
    schedule,
)

HOUR_S = 3600.0


def is_in_lull(harm: Harm) -> bool:
    return any(at_s <= harm.at_s < at_s + LULL_S for at_s in LULLS_AT_S)


@pytest.mark.parametrize("options", [[], ["--kafka"]])
def test_a_seed_makes_the_same_schedule_in_another_process(options: list[str]) -> None:
    command = [sys.executable, "-m", "tests.chaos", "--show", "--seed", "7", "--minutes", "5"]
    printed = [
        subprocess.run(
            [*command, *options],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": hashes},
        ).stdout.splitlines()
        for hashes in ("1", "2")
    ]
    planned = possible(schedule(7, 300.0), IMPOSSIBLE["kafka" if options else "embedded"])
    assert printed[0] == printed[1] == [str(harm) for harm in planned]


def test_another_seed_makes_another_schedule() -> None:
    assert schedule(1, HOUR_S) != schedule(2, HOUR_S)


def test_a_longer_schedule_begins_like_a_shorter_one() -> None:
    long = schedule(5, HOUR_S)
    for seconds in (60.0, 200.0, 300.0, 800.0, HOUR_S / 2):
        short = schedule(5, seconds)
        assert short == long[: len(short)]
        assert long[len(short)].at_s >= seconds


def test_what_is_impossible_on_a_site_is_left_out_and_all_else_comes_as_elsewhere() -> None:
    harms, impossible = schedule(9, HOUR_S), IMPOSSIBLE["kafka"]
    planned = possible(harms, impossible)
    assert set(impossible) == {"skew clock of log"}
    assert {harm.kind for harm in planned} == set(KINDS) - set(impossible)
    assert [harm for harm in harms if harm not in planned] == [
        harm for harm in harms if harm.kind == "skew clock of log"
    ]


def test_five_minutes_have_a_lull_in_which_a_replay_is_begun_amid_cheap_harms() -> None:
    for seed in range(20):
        harms = schedule(seed, 300.0)
        lull = [harm for harm in harms if is_in_lull(harm)]
        assert LULLS_AT_S[0] + LULL_S <= 300.0
        assert (lull[0].kind, lull[0].at_s) == (REPLAY, LULLS_AT_S[0])
        kinds = [harm.kind for harm in lull[1:]]
        assert kinds.count(LULL_KILL) == 1
        assert set(kinds) <= {*LULL_KINDS, LULL_KILL}
        assert len(kinds) >= LULL_S / LULL_PAUSE_S[1]
        assert [harm for harm in harms if harm.at_s >= LULLS_AT_S[0] + LULL_S]
    assert lull_ends(300.0) == [LULLS_AT_S[0] + LULL_S]
    assert lull_ends(250.0) == lull_ends(300.0, ["kill log"]) == []
    assert sum(harm.at_s in LULLS_AT_S for harm in schedule(1, HOUR_S / 2)) == len(LULLS_AT_S) == 3


def test_without_replays_there_is_no_lull() -> None:
    harms = schedule(1, 300.0, [kind for kind in KINDS if kind != REPLAY])
    assert {harm.kind for harm in harms if is_in_lull(harm)} > {*LULL_KINDS, LULL_KILL}


def test_every_kind_of_harm_comes_before_any_comes_again() -> None:
    kinds = [harm.kind for harm in schedule(3, HOUR_S)]
    assert sorted(kinds[: len(KINDS)]) == sorted(KINDS)
    assert len(kinds) > 10 * len(KINDS)


def test_harms_follow_each_other_within_bounds_and_rare_ones_are_rare() -> None:
    harms = schedule(4, 4 * HOUR_S)
    for harm in harms:
        least, most = KINDS[harm.kind]
        if harm.kind == REPLAY and is_in_lull(harm):
            most = LULL_S + LULL_MORE_S
        assert least <= harm.for_s <= most
        assert 0 <= harm.amount <= 1
    kinds = [harm.kind for harm in harms if not is_in_lull(harm)]
    assert {kind: kinds.count(kind) for kind in AT_MOST} == AT_MOST
    assert PAUSE_S[0] <= harms[0].at_s <= PAUSE_S[1]
    assert [harm.at_s for harm in harms] == sorted(harm.at_s for harm in harms)
    assert harms[-1].at_s < 4 * HOUR_S


def test_replays_and_new_partitions_come_throughout_half_an_hour() -> None:
    for seed in range(20):
        harms = schedule(seed, HOUR_S / 2)
        for kind in AT_MOST:
            times_s = [harm.at_s for harm in harms if harm.kind == kind and not is_in_lull(harm)]
            assert len(times_s) >= 4
            assert times_s[-1] > HOUR_S / 4
            assert min(later - earlier for earlier, later in pairwise(times_s)) > 100


def test_one_harm_alone_is_repeated_until_the_end() -> None:
    harms = schedule(1, 60.0, ["kill log"])
    assert {harm.kind for harm in harms} == {"kill log"}
    assert len(harms) > 60.0 / PAUSE_S[1]
