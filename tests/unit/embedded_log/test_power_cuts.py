"""Whatever the power is cut in the middle of: with `always`, all that was acknowledged is there.

The log's own code runs on a folder whose disk is a model (`tests.kit.power`): acknowledged is what
Produce answered. Disks that do not hear of some syncs, and the mode `second`, must be noticed.
"""

import asyncio
import random
import shutil
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kio.schema.produce.v8.response import ProduceResponse
from kio.serial import entity_reader

from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.cleaner import Cleaner
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.handlers.produce import produce
from pipeline.embedded.log.partition import Partition
from tests.kit.power import Disk, watched
from tests.unit.embedded_log.batches import make_batch, make_values
from tests.unit.embedded_log.test_cleaner import HandClock
from tests.unit.embedded_log.test_compaction import content
from tests.unit.embedded_log.test_items import request_of

PLAIN, COMPACTED = "plain", "compacted"
SETTINGS = {
    PLAIN: {"segment.bytes": "1500"},
    COMPACTED: {"segment.bytes": "1500", "cleanup.policy": "compact"},
}
PRODUCERS = 4
BATCHES = 25
KEYS = 40

CUTS_AT_ONCE = 0.1
"""After so many answers the power is cut before anything else is done."""

Acknowledged = dict[tuple[str, int], dict[int, tuple[bytes, bytes]]]
"""Of each partition the records whose answer has come: offset, key and value."""


async def send(broker: Broker, topic: str, number: int, batch: memoryview) -> int:
    """One Produce request; the offset that its answer gives the first record."""
    name = topic.encode()
    body = struct.pack(">hhiih", -1, -1, 1000, 1, len(name)) + name
    body += struct.pack(">iii", 1, number, len(batch)) + batch
    (answer,) = await produce(broker, request_of(0, 8, body))
    read, _ = entity_reader(ProduceResponse)(answer, 4)
    result = read.responses[0].partition_responses[0]
    assert result.error_code == 0
    return int(result.base_offset)


def readable(partition: Partition) -> list[tuple[int, bytes | None, bytes | None]]:
    """Its records; none if any is damaged, as a disk leaves them that does not hear of syncs."""
    try:
        return content(partition)
    except AssertionError:
        return []


def missing(folder: Path, acknowledged: Acknowledged) -> list[str]:
    """What a log that is opened on the folder lacks of it, or has otherwise."""
    broker = Broker(folder, HandClock(), Fsync.ALWAYS)
    lacks: list[str] = []
    for (topic, number), records in acknowledged.items():
        partition = broker.partition(topic, number)
        found = [] if partition is None else readable(partition)
        there = {offset: (key, value) for offset, key, value in found}
        newest = {key: offset for offset, key, _ in found}
        for offset, record in records.items():
            is_replaced = topic == COMPACTED and newest.get(record[0], -1) > offset
            if there.get(offset, None if is_replaced else ()) not in (record, None):
                lacks.append(f"{topic}/{number}/{offset}: {there.get(offset)} for {record}")
    broker.stop()
    return lacks


@dataclass
class Life:
    """A log from its start to a power cut, and who writes to it."""

    root: Path
    broker: Broker
    disk: Disk
    chance: random.Random
    acknowledged: Acknowledged
    lacks: list[str] = field(default_factory=list)
    cuts: int = 0

    async def write(self, name: str) -> None:
        """Send small batches, one after the other, to any partition."""
        for number in range(BATCHES):
            # Else all would wait for the same sync, and nobody would write while one runs.
            await asyncio.sleep(self.chance.uniform(0, 0.003))
            topic = self.chance.choice([PLAIN, PLAIN, COMPACTED])
            at = self.chance.randrange(len(self.broker.topics[topic].partitions))
            records = [
                (b"k%d" % self.chance.randrange(KEYS), f"{name}-{number}-{one}".encode())
                for one in range(self.chance.randint(1, 4))
            ]
            offset = await send(self.broker, topic, at, make_batch([*records]))
            self.acknowledged[topic, at].update(enumerate(records, offset))
            if number == 0 or self.chance.random() < CUTS_AT_ONCE:
                self.cut(None)

    async def compact(self) -> None:
        """Compact what has been closed, again and again, until it is cancelled."""
        cleaner = Cleaner(HandClock())
        try:
            while True:
                await asyncio.sleep(0.01)
                for partition in self.broker.topics[COMPACTED].partitions:
                    if cleaner.is_due(partition):
                        await cleaner.clean(partition)
        finally:
            cleaner.stop()

    async def cut_often(self) -> None:
        """Look at what power cuts leave at any moment, until it is cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(0, 0.02))
            self.cut(self.chance.choice([None, self.chance]))

    def cut(self, chance: random.Random | None) -> Path:
        """Where is what a power cut now leaves; what it lacks is noted."""
        self.cuts += 1
        left, opened = (self.root.with_name(f"{self.root.name}-{what}") for what in ("left", "is"))
        for old in (left, opened):
            shutil.rmtree(old, ignore_errors=True)
        self.disk.cut(left, chance)
        # A log that looks into it mends it, and syncs what it mends.
        shutil.copytree(left, opened)
        self.lacks += missing(opened, self.acknowledged)
        return left

    async def live(self) -> Path:
        """Where is what the power cut at its end leaves."""
        others = [asyncio.create_task(self.compact()), asyncio.create_task(self.cut_often())]
        await asyncio.gather(*(self.write(f"{self.root.name}-{n}") for n in range(PRODUCERS)))
        for partition in self.broker.topics[COMPACTED].partitions:
            partition.roll(HandClock().now_ms())
        async with asyncio.timeout(30):
            while not self.is_compacted():  # noqa: ASYNC110 - other tasks do it
                await asyncio.sleep(0.01)
        self.cut(None)
        left = self.cut(self.chance)
        for other in others:
            other.cancel()
        ends = await asyncio.gather(*others, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
        self.broker.stop()
        return left

    def is_compacted(self) -> bool:
        partitions = self.broker.topics[COMPACTED].partitions
        return all(one.segments[0].cleaned for one in partitions)


def _hears_all(_path: Path) -> bool:
    return True


async def lives(
    folder: Path,
    seed: int,
    mode: Fsync = Fsync.ALWAYS,
    *,
    count: int = 1,
    hears: Callable[[Path], bool] = _hears_all,
    settings: dict[str, str] | None = None,
) -> list[str]:
    """What is missing after power cuts in so many lives, each on what the one before left."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    acknowledged: Acknowledged = defaultdict(dict)
    root = folder / "life"
    root.mkdir()
    lacks: list[str] = []
    for number in range(count):
        with watched(root, hears) as disk:
            broker = Broker(root, HandClock(), mode)
            for topic, own in SETTINGS.items():
                if number == 0:
                    broker.create_topic(topic, 1, {**own, **(settings or {})})
                else:
                    broker.grow_topic(broker.topics[topic], number + 1)
            life = Life(root, broker, disk, chance, acknowledged)
            left = await life.live()
        assert life.cuts > 5
        assert max(len(one.segments) for one in broker.topics[PLAIN].partitions) > 2
        lacks += life.lacks
        root = folder / f"life-{number}"
        left.rename(root)
    return lacks


@pytest.mark.parametrize("seed", range(3))
async def test_all_that_was_acknowledged_is_there_after_power_cuts(
    tmp_path: Path, seed: int
) -> None:
    assert await lives(tmp_path, seed, count=2) == []


async def test_a_topic_may_ask_in_mode_second_for_what_survives_power_cuts(tmp_path: Path) -> None:
    settings = {"flush.messages": "1"}
    assert await lives(tmp_path, 1, Fsync.SECOND, settings=settings) == []


async def test_what_mode_second_loses_is_noticed(tmp_path: Path) -> None:
    """Between two of its seconds."""
    assert await lives(tmp_path, 1, Fsync.SECOND) != []


@pytest.mark.parametrize(
    ("what", "is_it"),
    [
        ("the segments", lambda path: path.suffix == ".log"),
        ("what a compaction wrote", lambda path: path.suffix == ".clean"),
        ("the names of segments", lambda path: path.name.isdigit()),
        ("the names of partitions", lambda path: path.name.endswith(f"-{PLAIN}")),
        ("the names of topics", lambda path: path.name == "topics"),
        ("the name of all topics", lambda path: path.name == "life"),
    ],
)
async def test_it_is_noticed_when_these_are_not_synced(
    tmp_path: Path, what: str, is_it: Callable[[Path], bool]
) -> None:
    assert await lives(tmp_path, 1, hears=lambda path: not is_it(path)) != [], what


async def test_what_a_process_wrote_that_died_is_synced_before_its_repeat_is_answered(
    tmp_path: Path,
) -> None:
    """It was neither synced nor acknowledged, and is there: the next process stores no repeat."""
    root = tmp_path / "log"
    root.mkdir()
    with watched(root) as disk:
        broker = Broker(root, HandClock(), Fsync.ALWAYS)
        topic = broker.create_topic(PLAIN, 1, {"segment.bytes": "300"})
        broker.stop()
        folder = topic.partitions[0].folder
        died = Partition(folder, topic.config, 0, HandClock().now_ms(), lambda *_: None)
        for number in range(5):
            died.append(make_values(3, producer_id=7, epoch=0, sequence=3 * number), 5)
        assert len(died.segments) > 1
        died.close()
        broker = Broker(root, HandClock(), Fsync.ALWAYS)
        for number in range(5):
            batch = make_values(3, producer_id=7, epoch=0, sequence=3 * number)
            assert await send(broker, PLAIN, 0, batch) == 3 * number
            disk.cut(tmp_path / f"left-{number}", None)
        broker.stop()
    for number in range(5):
        again = Broker(tmp_path / f"left-{number}", HandClock(), Fsync.ALWAYS)
        offsets = [offset for offset, _, _ in content(again.topics[PLAIN].partitions[0])]
        assert offsets[: 3 * (number + 1)] == list(range(3 * (number + 1)))
        again.stop()
