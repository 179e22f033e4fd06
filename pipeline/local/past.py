"""A past for the demo: its hashtags, as if the stream had begun a while ago.

Trends compare with what was before, and nothing is compared until half an hour is known
(docs/trends.md). So a new demo's log is written before anything else starts, by the log itself,
whose clock stands at those minutes. What counts it later is the pipeline, as it counts all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipeline import topics
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.running import claimed, running
from pipeline.errors import TryAgainError
from pipeline.producer import Producer
from pipeline.synthetic import SyntheticStream, day_level
from schemas.addresses import KafkaAddress
from schemas.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.clock import Clock

HOST = "127.0.0.1"
PAST_MS = 36 * 60_000
"""Half an hour to compare with, and the minutes until the first one is over and scored."""

STEP_MS = 15_000
RATE_MAX = 5_000
"""A demo that is faster has no past: it would keep people waiting."""

DELIVERY_S = 30.0
BUILD: int = 1
PARTITIONS: int = Settings.model_fields["partitions"].default


class StandingClock:
    """A Clock whose moment is put where it shall be; seconds go by as on the machine's own."""

    def __init__(self, clock: Clock, at_ms: int) -> None:
        self._clock = clock
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()


async def write_past(folder: Path, clock: Clock, rate: int) -> None:
    """Write what the stream's hashtags were up to now, at `rate` events a second of all families.

    Does nothing where a log is already, and above RATE_MAX. Raises OperatorError when the folder
    cannot be used, TryAgainError when the log does not take it.
    """
    if rate > RATE_MAX or await asyncio.to_thread(folder.exists):
        return
    now_ms = clock.now_ms()
    standing = StandingClock(clock, now_ms - PAST_MS)
    with claimed(folder):
        async with running(Broker(folder, standing, Fsync.SECOND), HOST, 0) as log:
            kafka = KafkaAddress(f"{HOST}:{log.port}")
            await asyncio.to_thread(_send, kafka, standing, now_ms, rate)


def _send(kafka: KafkaAddress, standing: StandingClock, until_ms: int, rate: int) -> None:
    topics.ensure_topics(kafka, BUILD, PARTITIONS)
    stream = SyntheticStream(seed=until_ms)
    with Producer(kafka) as producer:
        for at_ms in range(until_ms - PAST_MS, until_ms, STEP_MS):
            standing.at_ms = at_ms
            events = stream.events(at_ms, int(rate * day_level(at_ms) * STEP_MS / 1000))
            producer.increment_many(events.filter(pc.starts_with(events["counter"], "hashtag:")))
            # Before the clock goes on: records have the moment at which they arrive.
            if not producer.flush(DELIVERY_S):
                raise TryAgainError("the log did not take the demo's past; start it again")
