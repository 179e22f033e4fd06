"""Contestants are processes: what they hand in is checked before their time counts."""

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks._events import make_events
from benchmarks._kit import WrongAnswerError
from benchmarks.race.arena import Arena, FilledTopic
from benchmarks.race.contestants import Entry, Log
from benchmarks.race.truth import truth_of
from benchmarks.race.turns import NoResultError, take_turn

EVENTS = make_events(500, 1_700_000_000_000)
TRUTH = truth_of(EVENTS)


def contestant(code: str) -> Entry:
    """One that has the truth at hand, and does with it what the code says."""
    begin = f"""
import json, sys
from benchmarks.race.contract import task_of, write_result
task, truth = task_of(), json.loads({json.dumps(dict(TRUTH.counts))!r})
assert (task.kafka, task.topic, task.events, task.ends) == ("nowhere:1", "events", 500, (200, 300))
def hand_in(counts, events=500):
    write_result(task.result, events=events, seconds=0.5, began_s=1.0, counts=counts)
"""
    return Entry("one", (sys.executable, "-c", begin + code), "nowhere")


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    topic = FilledTopic("nowhere:1", os.getpid(), "events", 500, (200, 300))
    return Arena(tmp_path, 500, {(Log.PEERS, 500): topic}, {500: TRUTH})


def test_a_right_result_is_taken_with_its_time(arena: Arena) -> None:
    turn = take_turn(contestant("hand_in(truth)"), arena)
    assert (turn.events, turn.seconds) == (500, 0.5)
    assert turn.cost.own_mb > 5
    assert "broker" in turn.cost.servers_s


def test_a_wrong_count_is_refused(arena: Arena) -> None:
    entry = contestant("truth[next(iter(truth))] += 1\nhand_in(truth)")
    with pytest.raises(WrongAnswerError, match="one: 1 of "):
        take_turn(entry, arena)


def test_no_result_is_refused_with_what_the_contestant_wrote(arena: Arena) -> None:
    with pytest.raises(NoResultError, match=r"(?s)one ended with 0 and no result.*gave up"):
        take_turn(contestant("print('gave up')"), arena)


def test_a_right_result_of_one_that_failed_afterwards_is_refused(arena: Arena) -> None:
    with pytest.raises(NoResultError, match="one ended with 3"):
        take_turn(contestant("hand_in(truth)\nsys.exit(3)"), arena)
