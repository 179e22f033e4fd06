"""The past of a new demo: a log like any other, of the half hour before it began."""

import asyncio
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.local.past import RATE_MAX, write_past
from tests.kit.embedded import EmbeddedLog

RATE = 100
PARTITIONS = 8
MINUTE_MS = 60_000
NOW_MS = 1_770_000_000_000


class DemoClock(SystemClock):
    """Stands at the moment the demo begins."""

    def now_ms(self) -> int:
        return NOW_MS


def read(bootstrap: str) -> list[tuple[int, pa.Table]]:
    """All frames with the log's time of each."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reads"}
    found = []
    with closing(Consumer(settings)) as consumer:
        places = [TopicPartition(topics.INCREMENTS, number, 0) for number in range(PARTITIONS)]
        count = sum(consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)
        consumer.assign(places)
        for message in consumer.consume(count, timeout=30):
            frame = pa.ipc.open_stream(message.value()).read_all()
            found.append((message.timestamp()[1], frame))
    assert len(found) == count
    return found


def counted(frame: pa.Table) -> int:
    """A frame says nothing of deltas where all are 1."""
    return sum(frame["delta"].to_pylist()) if "delta" in frame.column_names else frame.num_rows


def test_hashtags_of_the_half_hour_before_are_in_the_log_at_their_time(tmp_path: Path) -> None:
    asyncio.run(write_past(tmp_path / "data", DemoClock(), RATE))
    log = EmbeddedLog(tmp_path)
    log.start()
    try:
        frames = read(log.bootstrap)
    finally:
        log.kill()
    minutes: dict[int, int] = {}
    for log_ms, frame in frames:
        assert set(frame["at"].to_pylist()) == {log_ms}
        assert all(name.startswith("hashtag:#") for name in frame["counter"].to_pylist())
        age = (NOW_MS - log_ms - 1) // MINUTE_MS
        minutes[age] = minutes.get(age, 0) + counted(frame)
    assert sorted(minutes) == list(range(36))
    # A fifth of everything, and what bursts besides.
    assert all(0.15 < count / (RATE * 60) < 0.35 for count in minutes.values())


@pytest.mark.parametrize(("rate", "is_there"), [(RATE, True), (RATE_MAX + 1, False)])
def test_a_log_that_is_there_and_a_quick_demo_get_no_past(
    tmp_path: Path, rate: int, is_there: bool
) -> None:
    folder = tmp_path / "data"
    if is_there:
        folder.mkdir()
    asyncio.run(write_past(folder, DemoClock(), rate))
    assert list(tmp_path.glob("data/*")) == []
