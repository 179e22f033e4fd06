"""Four days of a log, with the times they were written at, counted into a real ClickHouse.

A log of Tally's stamps records itself, so it cannot be days old. This one keeps the times
that it is given; everything else is as workers do it.
"""

import asyncio
import json
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from clickhouse_connect.driver import Client
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from pipeline import topics
from pipeline.absorb import absorb
from pipeline.checkpoint import Position
from pipeline.fetches import Fetch
from pipeline.groupless import groupless_consumer, log_ranges, read_ranges
from pipeline.shard import Shard
from pipeline.tail.reader import as_records
from pipeline.writes.sink import ClickHouseSink
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.records import Records
from tests.kit.tally import Done, RunningTally

SHARDS = 2
DAY_MS, MINUTE_MS = 86_400_000, 60_000
FIRST_DAY_MS = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS - 3 * DAY_MS
DAYS = [FIRST_DAY_MS + number * DAY_MS for number in range(4)]
SLOTS = [day_ms + minute * MINUTE_MS for day_ms in DAYS for minute in (0, 1, 5)]
"""Only minutes that are over, whenever the test runs: the last are not compared as open ones."""

EVENTS = 40
"""In each slot and shard."""

RECORDS = EVENTS + 7
"""In each slot and shard: events, five with ids, a late one, one that is none."""


def events(slot_ms: int) -> list[dict[str, Any]]:
    """Additions, removals, duplicates, one that is too late, and one that is no event."""
    found: list[dict[str, Any]] = [
        {"counter": f"a:{n % 5}", "delta": 1 + n % 3 if n % 7 else -2, "at": slot_ms + n}
        for n in range(EVENTS)
    ]
    found += [{"counter": "a:id", "id": f"{slot_ms}-{n % 2}", "at": slot_ms} for n in range(5)]
    return [*found, {"counter": "a:late", "at": slot_ms - 5 * DAY_MS}, {"no": "event"}]


def produce(kafka: str) -> list[Records]:
    """Write the log, and read what it has of each shard."""
    admin = AdminClient({"bootstrap.servers": kafka})
    topic = NewTopic(topics.INCREMENTS, SHARDS, 1, config={"message.timestamp.type": "CreateTime"})
    for made in admin.create_topics([topic]).values():
        made.result()
    producer = Producer({"bootstrap.servers": kafka})
    for slot_ms in SLOTS:
        for shard in range(SHARDS):
            for number, event in enumerate(events(slot_ms)):
                value = json.dumps(event).encode()
                producer.produce(
                    topics.INCREMENTS, value, partition=shard, timestamp=slot_ms + number
                )
    assert producer.flush(30) == 0
    ranges = dict(enumerate(log_ranges(KafkaAddress(kafka))))
    with closing(groupless_consumer(KafkaAddress(kafka))) as consumer:
        messages = [one for *_, one in read_ranges(consumer, topics.INCREMENTS, ranges)]
    return sorted(as_records(messages), key=lambda records: records.partition)


@dataclass
class Site:
    """A build in one ClickHouse, and the log it was counted from."""

    client: Client
    kafka: str
    clickhouse: str
    log: list[Records]
    build: int = 1

    @property
    def tally(self) -> RunningTally:
        return RunningTally(self.kafka, self.clickhouse)

    def count(self) -> None:
        """As workers do, in one flush."""
        asyncio.run(self._count())

    async def _count(self) -> None:
        shards = [Shard(records.partition, replica="main") for records in self.log]
        for shard in shards:
            self.read(shard, int(self.log[shard.partition].offsets[-1]) + 1)
        await self.flush(shards)

    def read(self, shard: Shard, end: int) -> None:
        """Let a shard count what the log has from its position up to an offset."""
        found = self.log[shard.partition]
        absorb(shard, Fetch(shard.position, end, found.cut(shard.position, end)))

    async def flush(self, shards: list[Shard]) -> None:
        """As workers do."""
        with closing(
            ClickHouseSink(ClickHouseAddress(self.clickhouse), self.build, "main")
        ) as sink:
            snapshots = [shard.snapshot(checkpoint=False) for shard in shards]
            assert await sink.write_cells(snapshots) == []
            assert await sink.write_summaries(snapshots) == []
            await sink.write_positions(
                [
                    Position(
                        one.partition, one.incarnation, one.position - 1, one.log_ms, 0, -1, 0, 0
                    )
                    for one in shards
                ]
            )

    def run(self, statement: str) -> None:
        """Change something behind Tally's back, and wait until it is changed."""
        self.client.command(statement, settings={"mutations_sync": 2})

    def verify(self, *options: str, code: int = 1) -> Done:
        return self.tally.run("verify", *options, code=code)
