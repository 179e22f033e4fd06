"""Three brokers in processes of their own, with equal topics: embedded, Apache Kafka, mock."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, why_no_kafka
from tests.kit.processes import Process, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_TIMEOUT_S = 20
ANSWER_TIMEOUT_S = 20
PARTITIONS = 4
"""What the mock cluster gives every topic; it cannot be told otherwise."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that serves clients now."""

    name: str
    bootstrap: str
    pid: int

    def make_topics(self, topics: Sequence[str]) -> None:
        """Block until they are there; the mock cluster makes a topic when somebody asks for it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        if self.name != MOCK:
            config = {"message.timestamp.type": "LogAppendTime"}
            wanted = [NewTopic(topic, PARTITIONS, 1, config=config) for topic in topics]
            for made in admin.create_topics(wanted).values():
                made.result(ANSWER_TIMEOUT_S)
        for topic in topics:
            # Kafka answers before the topic is known, and tells of it before partitions are led.
            wait_until(partial(self._serves, admin, topic), f"{topic} on the {self.name}")

    def _serves(self, admin: AdminClient, topic: str) -> bool:
        found = admin.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic]
        if len(found.partitions) != PARTITIONS:
            return False
        asking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "-", "log_level": 0})
        try:
            for partition in range(PARTITIONS):
                asking.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_TIMEOUT_S)
        except KafkaException:
            return False
        finally:
            asking.close()
        return True

    def cpu_s(self) -> float:
        """Time the process had on processors, all threads together, in steps of 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


EMBEDDED, KAFKA, MOCK = "embedded log", "Apache Kafka", "mock cluster"


class CompiledKafka(RealKafka):
    """Kafka with the compilers and the heap its users have: the tests' node is made to start soon,
    and would be slower than it need be.
    """

    def _java(self, main_class: str) -> list[str | Path]:
        java, *options = super()._java(main_class)
        kept = [one for one in options if not str(one).startswith(("-Xm", "-XX:"))]
        return [java, "-Xms512m", "-Xmx1g", *kept]


@contextmanager
def brokers(folder: Path) -> Iterator[list[Running]]:
    """All that can run here; says in one line why Kafka cannot. They end with the block."""
    with ExitStack() as stack:
        log = EmbeddedLog(folder / "embedded")
        stack.callback(log.kill)
        log.start()
        found = [Running(EMBEDDED, log.bootstrap, log.pid)]
        missing = why_no_kafka()
        if missing is None:
            kafka = CompiledKafka(folder / "kafka")
            stack.callback(kafka.kill)
            kafka.start()
            found.append(Running(KAFKA, kafka.bootstrap, kafka.pid))
        else:
            print(f"skipped: {missing}")
        command = [sys.executable, "-m", "benchmarks._mock_cluster"]
        mock = stack.enter_context(Process(command, output_path=folder / "mock.txt"))
        ready = mock.wait_for_line(r"^mock ready on (\S+)$", timeout_s=START_TIMEOUT_S)
        found.append(Running(MOCK, ready.group(1), mock.pid))
        yield found
