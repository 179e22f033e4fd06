"""`tally partitions N`: in which order what is told to whom, and what is taken back."""

import time
from typing import Any

import pytest

from pipeline import topics
from pipeline.control import grow as growing
from pipeline.control.grow import Partitions, grow
from pipeline.control.noted_partitions import HEARD_S, Noted
from pipeline.errors import OperatorError, TryAgainError

CHANGELOG = topics.changelog(1)


class World:
    """Kafka, ClickHouse and the rules, each as much as growing asks of them."""

    def __init__(self, source: int, changelog: int, refusal: Exception | None = None) -> None:
        self.counts = {topics.INCREMENTS: source, CHANGELOG: changelog}
        self.refusal = refusal
        self.done: list[tuple[Any, ...]] = []

    def grow(self, _: object, topic: str, partitions: int) -> None:
        self.done.append(("grow", topic, partitions))
        if self.refusal is not None and topic == topics.INCREMENTS:
            raise self.refusal
        self.counts[topic] = partitions

    def announce(self, partitions: int) -> Noted:
        self.done.append(("announce", partitions))
        return Noted(partitions, 77, 0)

    def replace(self, known: Noted, partitions: int) -> None:
        self.done.append(("replace", known.seen_ms, partitions))

    def repeat(self) -> None:
        self.done.append(("rules",))

    def now(self, *_: object) -> Partitions:
        return Partitions(self.counts[topics.INCREMENTS], {1: self.counts[CHANGELOG]}, 2)


def grown(world: World, wanted: int, monkeypatch: pytest.MonkeyPatch) -> Partitions:
    monkeypatch.setattr(growing, "partitions_now", world.now)
    monkeypatch.setattr(topics, "admin_client", lambda _: None)
    monkeypatch.setattr(topics, "grow", world.grow)
    monkeypatch.setattr(topics, "partition_counts", lambda _: world.counts)
    monkeypatch.setattr(time, "sleep", lambda s: world.done.append(("sleep", s)))
    anything: Any = world
    return grow(anything, anything, anything, wanted)


def test_reads_hear_of_new_partitions_before_kafka_does(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2, 2)
    assert grown(world, 4, monkeypatch) == Partitions(4, {1: 4}, 2)
    assert world.done == [
        ("grow", CHANGELOG, 4),
        ("announce", 4),
        ("sleep", HEARD_S),
        ("grow", topics.INCREMENTS, 4),
        ("rules",),
    ]


def test_asked_again_it_notes_the_number_and_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(4, 4)
    grown(world, 4, monkeypatch)
    assert world.done == [("announce", 4), ("rules",)]


def test_what_kafka_refuses_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2, 4, topics.NotGrownError("no"))
    with pytest.raises(topics.NotGrownError):
        grown(world, 4, monkeypatch)
    assert world.done[-1] == ("replace", 77, 2)


def test_what_kafka_may_still_do_is_left_to_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2, 4, TryAgainError("not in time"))
    with pytest.raises(TryAgainError):
        grown(world, 4, monkeypatch)
    assert world.done[-1] == ("grow", topics.INCREMENTS, 4)


def test_fewer_are_refused_and_announced_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(4, 4)
    with pytest.raises(OperatorError, match="takes none away"):
        grown(world, 3, monkeypatch)
    assert world.done == []
