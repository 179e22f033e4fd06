"""Logs that were written long ago, over minutes of log time, filled within seconds."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from benchmarks._brokers import CompiledKafka
from schemas.frames import FRAME_CONTENT_TYPE
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from benchmarks._replay_stream import Message
    from tests.kit.kafka import RealKafka

TOPIC = "tally.increments"
ANSWER_TIMEOUT_S = 20
START_TIMEOUT_S = 60
SEND_TIMEOUT_S = 120
TYPE = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Log:
    """A running broker with a filled log: `ends` has the offset after the last, by partition."""

    kafka: str
    pid: int
    ends: list[int]
    bytes: int


@contextmanager
def replay_logs(
    folder: Path, messages: Iterable[Message], partitions: int, *, frames: bool, real: bool
) -> Iterator[tuple[Log, Log]]:
    """Two brokers whose logs hold the messages, with their times. They end with the block.

    Workers append rules and heartbeats to the first; the other is for those who cannot read them.
    """
    names = ("ours", "peers")
    with filled_logs(folder, names, messages, partitions, frames=frames, real=real) as (one, other):
        yield one, other


@contextmanager
def filled_logs(
    folder: Path,
    names: Sequence[str],
    messages: Iterable[Message],
    partitions: int,
    *,
    frames: bool,
    real: bool,
) -> Iterator[list[Log]]:
    """A broker of each name, in a folder of its own, whose log holds the messages."""
    with ExitStack() as stack:
        brokers: list[EmbeddedLog | RealKafka] = []
        for name in names:
            broker = CompiledKafka(folder / name) if real else EmbeddedLog(folder / name)
            stack.callback(broker.kill)
            broker.start()
            brokers.append(broker)
        senders = [_Sender(broker.bootstrap, partitions, frames=frames) for broker in brokers]
        ends, size = [0] * partitions, 0
        for message in messages:
            ends[message.partition] += 1
            size += len(message.value)
            for sender in senders:
                sender.send(message)
        for sender in senders:
            sender.finish()
        yield [Log(one.bootstrap, one.pid, ends, size) for one in brokers]


@contextmanager
def clickhouse(folder: Path) -> Iterator[tuple[str, int]]:
    """The URL and process id of an empty ClickHouse. Ends with the block."""
    command: list[str | Path] = [sys.executable, "-m", "pipeline.embedded.clickhouse"]
    command += ["--data", folder / "clickhouse", "--host", "127.0.0.1", "--port", "0"]
    with Process(command, output_path=folder / "clickhouse.txt") as server:
        ready = server.wait_for_line(r"^clickhouse ready on (\S+)$", timeout_s=START_TIMEOUT_S)
        yield f"http://{ready.group(1)}", server.pid


class _Sender:
    """Fills a log while its topic takes the senders' times, so that log time is the stream's."""

    def __init__(self, kafka: str, partitions: int, *, frames: bool) -> None:
        self._admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        topic = NewTopic(TOPIC, partitions, 1, config={TYPE: "CreateTime"})
        self._admin.create_topics([topic])[TOPIC].result(ANSWER_TIMEOUT_S)
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 256 * 1024,
                "queue.buffering.max.kbytes": 1 << 18,
                "log_level": 0,
            }
        )
        self._headers: dict[str, str | bytes | None] | None = (
            {"content-type": FRAME_CONTENT_TYPE} if frames else None
        )

    def send(self, message: Message) -> None:
        """Blocks while the client's queue is full."""
        partition, at_ms, value = message
        while True:
            try:
                self._producer.produce(
                    TOPIC, value, partition=partition, headers=self._headers, timestamp=at_ms
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def finish(self) -> None:
        """Raises RuntimeError unless everything is confirmed. From now on the log tells the time,
        as workers demand.
        """
        if self._producer.flush(SEND_TIMEOUT_S):
            raise RuntimeError("the log did not confirm everything")
        entry = ConfigEntry(TYPE, "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
        for changed in self._admin.incremental_alter_configs([topic]).values():
            changed.result(ANSWER_TIMEOUT_S)
