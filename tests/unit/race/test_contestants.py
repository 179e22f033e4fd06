"""Who takes part, and what each is told."""

import re
from pathlib import Path

import pytest

from benchmarks.race.arena import EVENTS_LEAST, share_of
from benchmarks.race.contestants import CEILING, ENTRIES, ROOT, entries
from benchmarks.race.contract import Task, task_of


def test_the_ceiling_always_takes_part() -> None:
    assert [one.name for one in entries(["Bytewax"])] == [CEILING, "Bytewax"]
    assert entries(None) == ENTRIES
    assert ENTRIES[0].name == CEILING


def test_names_are_unique_and_an_unknown_one_is_told_who_there_is() -> None:
    names = [one.name for one in ENTRIES]
    assert len(names) == len(set(names))
    with pytest.raises(
        ValueError, match=r"no contestant 'Flink'; there are: confluent-kafka, bare"
    ):
        entries(["Flink"])


def test_a_share_is_never_too_few_and_never_more_than_there_are() -> None:
    assert share_of(1_000_000, 0.05) == 50_000
    assert share_of(10_000, 0.05) == EVENTS_LEAST
    assert share_of(500, 0.05) == 500
    assert share_of(1_000_000, 1.0) == 1_000_000


def test_a_contestant_reads_what_the_harness_told_it() -> None:
    task = Task("host:1", "topic", 9, 2, Path("/r.json"), Path("/f"), (4, 5), "http://host:2")
    assert task_of(task.env()) == task
    bare = {name: value for name, value in task.env().items() if name != "RACE_ENDS"}
    assert task_of(bare).ends == ()


def test_peers_are_pinned_by_name_and_version() -> None:
    locks = sorted((ROOT / "benchmarks/race/peers").glob("*.lock"))
    assert [lock.stem for lock in locks] == ["bytewax", "faust", "quix"]
    for lock in locks:
        lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
