"""What the log holds, message by message, read with nothing of the program under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

TOPIC = "tally.increments"
TIMEOUT_S = 60
READ_AT_ONCE = 1_000


class Seen(NamedTuple):
    """A frame: where it is, when the log got it, and how many rows it has.

    `watched` are those of the counter that is watched, without an id: ids are not sharded.
    """

    partition: int
    offset: int
    at_ms: int
    rows: int
    watched: int


class LogRows:
    """Reads the frames of the log from its beginning on. Other records have no rows."""

    def __init__(self, kafka: str, partitions: int, watched: str | None = None) -> None:
        self._watched = watched
        self._reader = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": "-",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._places = [TopicPartition(TOPIC, number, 0) for number in range(partitions)]
        self._next = [0] * partitions
        self._reader.assign(self._places)

    def ends(self) -> list[int]:
        """The offset after the last record, by partition. Blocks."""
        return [self._reader.get_watermark_offsets(at, TIMEOUT_S)[1] for at in self._places]

    def read(self, timeout_s: float, at_most: int = READ_AT_ONCE) -> list[Seen]:
        """What came within the time; sooner if these are as many as are wanted."""
        messages = self._reader.consume(at_most, timeout_s)
        found = [_seen(message, self._watched) for message in messages]
        for one in found:
            self._next[one.partition] = one.offset + 1
        return found

    def read_all(self) -> list[Seen]:
        """All that is in the log now and was not read before. Raises TimeoutError."""
        ends, found = self.ends(), list[Seen]()
        while (left := sum(ends) - sum(self._next)) > 0:
            came = self.read(TIMEOUT_S, min(left, READ_AT_ONCE))
            if not came:
                raise TimeoutError(f"the log was read up to {self._next} of {ends}")
            found += came
        return found

    def close(self) -> None:
        self._reader.close()


def _seen(message: Message, watched: str | None) -> Seen:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    at_ms, headers = message.timestamp()[1], dict(message.headers() or [])
    if "content-type" not in headers:
        return Seen(partition, offset, at_ms, 0, 0)
    with pa.ipc.open_stream(message.value()) as stream:
        rows = stream.read_all()
    return Seen(partition, offset, at_ms, rows.num_rows, _count(rows, watched) if watched else 0)


def _count(rows: pa.Table, counter: str) -> int:
    encoded = rows["counter"].combine_chunks()
    code = encoded.dictionary.index(counter).as_py()
    is_counter = encoded.indices.to_numpy() == code
    if "id" in rows.column_names:
        is_counter &= rows["id"].is_null().to_numpy()
    return int(is_counter.sum())
