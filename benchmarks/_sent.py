"""What a log received since a moment, read with nothing of the program under test."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT_S = 60
READ_AT_ONCE = 10_000


class SentTo:
    """Tells what was sent to a topic since it was last asked."""

    def __init__(self, kafka: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._reader = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": "-",
                "enable.auto.commit": False,
                "queued.min.messages": 1_000_000,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        self._ends = [0] * partitions

    def sums(self) -> Counter[str]:
        """What was added to each counter, be it as JSON or as frames."""
        found: Counter[str] = Counter()
        for value in self._values():
            if value.startswith(b"{"):
                event = json.loads(value)
                found[event["counter"]] += event.get("delta", 1)
            else:
                found.update(_sums_of(value))
        return found

    def skip(self) -> None:
        """What was sent up to now is not asked for."""
        self._ends = self._now()

    def close(self) -> None:
        self._reader.close()

    def _now(self) -> list[int]:
        return [
            self._reader.get_watermark_offsets(TopicPartition(self._topic, number), TIMEOUT_S)[1]
            for number in range(len(self._ends))
        ]

    def _values(self) -> Sequence[bytes]:
        starts, self._ends = self._ends, self._now()
        wanted = sum(self._ends) - sum(starts)
        places = [TopicPartition(self._topic, number, at) for number, at in enumerate(starts)]
        self._reader.assign(places)
        values: list[bytes] = []
        while len(values) < wanted:
            messages = self._reader.consume(min(READ_AT_ONCE, wanted - len(values)), TIMEOUT_S)
            if not messages:
                break
            values += [bytes(message.value() or b"") for message in messages]
        # A client that goes on fetching makes whoever asks for offsets wait.
        self._reader.unassign()
        return values


def _sums_of(frame: bytes) -> Mapping[str, int]:
    with pa.ipc.open_stream(frame) as stream:
        columns = stream.read_all()
    counter = columns["counter"].cast(pa.string())
    delta = columns["delta"] if "delta" in columns.column_names else pa.repeat(1, len(counter))
    table = pa.table({"counter": counter, "delta": delta}).group_by("counter")
    summed = table.aggregate([("delta", "sum")])
    return dict(zip(summed["counter"].to_pylist(), summed["delta_sum"].to_pylist(), strict=True))


def sums_of_columns(columns: Mapping[str, pa.Array]) -> dict[str, int]:
    """The truth about columns of increments of one each."""
    counted = pc.value_counts(columns["counter"])
    names, counts = counted.field("values"), counted.field("counts")
    return dict(zip(names.to_pylist(), counts.to_pylist(), strict=True))
