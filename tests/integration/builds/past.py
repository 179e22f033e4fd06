"""A log that has days of history, as if Tally had run for long, and people who look at it."""

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.integration.worker.events import FRAME_HEADERS, PARTITIONS, Messages
from tests.integration.worker.site import Site
from tests.integration.worker.stream import TOPIC, Sender

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RULES_EVERY_HOURS = 3


def write_past(
    site: Site,
    family: str,
    sender: Sender,
    *,
    now_ms: int,
    days: int,
    rules: dict[str, Any],
    seed: int = 0,
) -> list[list[int]]:
    """Write `days` days of messages that end an hour ago, and rules every few hours, with the times
    the log would have given them, into one that is empty. Returns the end of each partition after
    each hour. Another `seed` has other ids."""
    producer = Producer({"bootstrap.servers": site.kafka, "acks": "all", "log_level": 0})
    chance = random.Random(days)
    set_timestamps(site.kafka, "CreateTime")
    ends, counts = [], [0] * PARTITIONS
    for hour in range(days * 24):
        at_ms = now_ms - (days * 24 - hour) * HOUR_MS
        if hour % RULES_EVERY_HOURS == 0:
            # Ids are repeated within a few hours only, which is less than they are remembered.
            messages = Messages(family, seed + hour)
            for partition in range(PARTITIONS):
                producer.produce(
                    TOPIC,
                    json.dumps(rules).encode(),
                    partition=partition,
                    headers={"tally-kind": "rules"},
                    timestamp=at_ms,
                )
                counts[partition] += 1
        for minute in sorted(chance.sample(range(1, 59), 6)):
            message = messages.next(at_ms + minute * 60_000)
            producer.produce(
                TOPIC,
                message.value,
                partition=message.partition,
                headers=dict(FRAME_HEADERS) if message.is_frame else None,
                timestamp=at_ms + minute * 60_000,
            )
            place = f"{message.partition}/{counts[message.partition]}"
            sender.bad_places.update(f"{place}/{row}" for row in message.bad_rows)
            counts[message.partition] += 1
            for event in message.events:
                sender.truth.add(event)
        ends.append(list(counts))
    assert producer.flush(60) == 0
    set_timestamps(site.kafka, "LogAppendTime")
    return ends


def set_timestamps(kafka: str, kind: str) -> None:
    """Whose time the records get that are written from now on."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    entry = ConfigEntry("message.timestamp.type", kind, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=20)


@contextmanager
def somebody_looks(site: Site, family: str, pause_s: float = 0.1) -> Iterator[None]:
    """Asks the view all the time: there is always an answer, and no window ever goes away."""
    query = f"SELECT count() FROM tally.counts_by_region_1m WHERE family = '{family}'"
    stop, answers, failures = threading.Event(), [0], []

    def look() -> None:
        while not stop.wait(pause_s):
            try:
                answers.append(site.tally.rows(query)[0][0])
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=look, name="somebody looks")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not failures, failures[:3]
    fallen = [(one, two) for one, two in itertools.pairwise(answers) if two < one]
    assert not fallen, f"windows went away: {fallen[:5]} of {len(answers)} looks"
