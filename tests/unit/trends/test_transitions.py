import json
from hashlib import blake2b

import numpy as np
import pytest

from pipeline.rules import TrendRules
from pipeline.trends.ranking import rank
from pipeline.trends.score import FADE_MINUTES, score
from pipeline.trends.transitions import Transition, transition_id, transitions
from tests.unit.trends.streams import DAY, MINUTE_MS, cut, scored

RULES = TrendRules()
NOW = 600_000


def test_an_id_is_the_hash_of_what_happened_where_and_when() -> None:
    wanted = blake2b(
        b'["enter", "tag", "eu", "tag:caf\\u00e9", 600000]', digest_size=16
    ).hexdigest()
    assert transition_id("enter", "tag", "eu", "tag:café", NOW) == wanted


def test_different_transitions_have_different_ids() -> None:
    ids = {
        transition_id(transition, family, region, counter, window_ms)
        for transition in ("enter", "leave")
        for family in ("a", "a,b")
        for region in ("", "*", '","')
        for counter in ("a:x", 'a:","x')
        for window_ms in (0, 60_000)
    }
    assert len(ids) == 2 * 2 * 3 * 2 * 2


def test_those_who_left_and_those_who_entered_are_told_once_each() -> None:
    before = {"tag:gone": 60_000, "tag:kept": 120_000}
    given = scored(["tag:kept", "tag:come"], [7.0, 8.0], [500, 40], is_new=[False, True])
    ranking = rank(given, RULES, before, window_ms=NOW)
    left, entered = transitions("tag", "eu", before, ranking)
    assert left == Transition(
        transition_id("leave", "tag", "eu", "tag:gone", NOW),
        "leave", "tag", "eu", "tag:gone", NOW, 60_000,
    )  # fmt: skip
    assert entered == Transition(
        transition_id("enter", "tag", "eu", "tag:come", NOW),
        "enter", "tag", "eu", "tag:come", NOW, NOW, "new", 40, 0.0, 8.0,
    )  # fmt: skip
    assert transitions("tag", "eu", ranking.trending, ranking) == []


def test_an_event_is_a_json_object_with_plain_values() -> None:
    ranking = rank(scored(["tag:café"], [8.0]), RULES, {}, window_ms=NOW)
    (entered,) = transitions("tag", "*", {}, ranking)
    assert json.loads(entered.to_bytes()) == {
        "id": entered.id, "transition": "enter", "family": "tag", "region": "*",
        "counter": "tag:café", "window_ms": NOW, "entered_ms": NOW, "kind": "rising",
        "observed": 1000, "expected": 0.0, "score": 8.0,
    }  # fmt: skip


def test_an_open_window_lets_nobody_in_or_out() -> None:
    ranking = rank(scored(["a"], [9.0]), RULES, {}, window_ms=NOW, provisional=True)
    with pytest.raises(ValueError, match="provisional"):
        transitions("tag", "eu", {}, ranking)


def stream(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Three counters over two days; the second has a burst of ten minutes and is silent then."""
    counts = np.random.default_rng(seed).poisson([[5.0], [0.5], [50.0]], (3, 2 * DAY))
    counts[1, DAY + 600 : DAY + 610] += 80
    counts[1, DAY + 610 :] = 0
    return counts.astype(np.int64)


def told(first: int, end: int, before: dict[str, int]) -> list[Transition]:
    """What a leader tells that begins with a state and scores every minute."""
    counts, found = stream(7), []
    for minute in range(first, end):
        given = score(cut(["a", "b", "c"], counts, minute))
        ranking = rank(given, RULES, before, window_ms=minute * MINUTE_MS)
        found += transitions("tag", "eu", before, ranking)
        before = ranking.trending
    return found


def test_a_burst_enters_at_once_and_fades_when_nothing_happens_any_more() -> None:
    entered, left = told(DAY + 500, DAY + 700, {})
    assert (entered.transition, entered.counter) == ("enter", "b")
    assert entered.window_ms == (DAY + 600) * MINUTE_MS
    assert (left.transition, left.counter, left.entered_ms) == ("leave", "b", entered.window_ms)
    assert left.window_ms <= (DAY + 609 + FADE_MINUTES) * MINUTE_MS


def test_a_replay_and_a_leader_that_takes_over_tell_the_same_bytes() -> None:
    whole = told(DAY + 500, DAY + 700, {})
    assert len(whole) == 2
    assert [one.to_bytes() for one in told(DAY + 500, DAY + 700, {})] == [
        one.to_bytes() for one in whole
    ]
    in_between = {"b": whole[0].window_ms}
    assert told(DAY + 605, DAY + 700, in_between) == whole[1:]
