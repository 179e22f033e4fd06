"""One turn: a contestant's process from its start to its result, watched, and checked."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks._kit import Contestant, Outcome
from benchmarks._replay_log import clickhouse
from benchmarks.race.contestants import ROOT
from benchmarks.race.contract import Task
from benchmarks.race.usage import Usage
from tests.kit.processes import Process

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.race.arena import Arena
    from benchmarks.race.contestants import Entry
    from benchmarks.race.usage import Cost

TURN_TIMEOUT_S = 300
SHOWN = 2_000
BROKER, STORE = "broker", "ClickHouse"


class NoResultError(Exception):
    """A contestant ended without a result, or badly; the text ends with what it last wrote."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one right turn took."""

    events: int
    seconds: float
    cost: Cost


@dataclass(slots=True)
class Racer:
    """A contestant in an arena, with the turns it has taken."""

    entry: Entry
    arena: Arena
    turns: list[Turn] = field(default_factory=list)
    contestant: Contestant = field(init=False)

    def __post_init__(self) -> None:
        self.contestant = Contestant(self.entry.name, self.take_turn)

    def take_turn(self) -> Outcome:
        """Raises WrongAnswerError for a wrong result, NoResultError without one: no time counts."""
        turn = take_turn(self.entry, self.arena)
        self.turns.append(turn)
        return Outcome(turn.events, turn.seconds)


def take_turn(entry: Entry, arena: Arena) -> Turn:
    """Run it once, on a ClickHouse of its own if it wants one, and check what it wrote."""
    topic = arena.topics[entry.log, arena.events_of(entry.share)]
    folder = arena.next_folder()
    watched = {BROKER: topic.broker_pid}
    with ExitStack() as stack:
        url = ""
        if entry.with_clickhouse:
            url, watched[STORE] = stack.enter_context(clickhouse(folder))
        task = Task(
            kafka=topic.kafka,
            topic=topic.topic,
            events=topic.events,
            partitions=len(topic.ends),
            result=folder / f"{folder.name}.json",
            folder=_made(folder / "own"),
            ends=topic.ends,
            clickhouse=url,
        )
        found, usage = run(entry, task, watched)
    truth = arena.truths[topic.events]
    truth.check(entry.name, found, is_counting=entry.is_counting)
    # Those that do not tell when they began wrote their result as soon as they had ended.
    began_s = found.get("began_s") or task.result.stat().st_mtime - found["seconds"]
    cost = usage.cost(began_s, began_s + found["seconds"])
    return Turn(found["events"], found["seconds"], cost)


def run(entry: Entry, task: Task, watched: dict[str, int]) -> tuple[dict[str, Any], Usage]:
    """The contestant's process until it has ended. Raises NoResultError unless it ended well."""
    search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {"PYTHONPATH": search, **task.env()}
    output = task.folder.with_suffix(".txt")
    with Process(entry.command, output_path=output, env=env, cwd=task.folder) as process:
        usage = Usage(process.pid, watched)
        try:
            code = process.wait(timeout_s=TURN_TIMEOUT_S)
        finally:
            usage.stop()
        if code != 0 or not task.result.exists():
            last = process.output()[-SHOWN:]
            raise NoResultError(f"{entry.name} ended with {code} and no result; it wrote:\n{last}")
    return json.loads(task.result.read_text()), usage


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
