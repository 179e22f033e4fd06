"""A real Apache Kafka for tests: one KRaft node with its own ports, folder and small heap.

`python -m tests.kit.kafka fetch` brings its jars.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.kafka_jars import KAFKA_VERSION, fetch_jars, have_jars, jars_dir
from tests.kit.processes import Process, free_port

HOST = "127.0.0.1"
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 40
# A fixed id: every node is a cluster of its own, on ports of its own, so ids cannot be mixed up.
CLUSTER_ID = "dGFsbHktdGVzdC1rYWZrYQ"
# One small compiler and one small collector: on two cores they start in half the time.
JVM_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

BROKERS_OF_LONG_FORMS = (
    "embedded",
    pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.prove]),
)
"""Parameters of tests that run on both brokers by `make prove`, and on one otherwise."""

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.ready.name = kafka.server.KafkaRaftServer
logger.ready.level = info
"""

# Every interval that tests wait for is short; every replication factor is one.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "300",
    "num.network.threads": "2",
    "socket.listen.backlog.size": "1000",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
}


def why_no_kafka() -> str | None:
    """One line that says what is missing to run a real Kafka, or None when nothing is."""
    if shutil.which("java") is None:
        return "no real Apache Kafka: Java 17 is not installed"
    if not have_jars():
        return f"no real Apache Kafka: {KAFKA_VERSION} is not in {jars_dir()}; run `make kafka`"
    return None


def require_kafka() -> None:
    """Skip the test where a real Kafka cannot run; fail it instead under TALLY_REQUIRE_KAFKA=1."""
    reason = why_no_kafka()
    if reason is None:
        return
    if os.environ.get("TALLY_REQUIRE_KAFKA") == "1":
        pytest.fail(f"{reason} (TALLY_REQUIRE_KAFKA=1)", pytrace=False)
    pytest.skip(reason)


class RealKafka:
    """A Broker: one node that is broker and controller. Its data lives in `folder`."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        """Write the settings and format the storage; blocks for some seconds; raises on failure."""
        self._folder = folder
        self._port, self._controller_port = free_port(), free_port()
        self._process: Process | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(LOGGING)
        self._write_settings()
        command = self._java("kafka.tools.StorageTool")
        command += ["format", "-t", CLUSTER_ID, "-c", self._settings_path]
        with Process(command, output_path=folder / "format.txt") as formatting:
            if formatting.wait(timeout_s=START_TIMEOUT_S) != 0:
                raise RuntimeError(f"Kafka could not format its storage:\n{formatting.output()}")

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        if self._process is None or not self._process.running:
            raise RuntimeError("this Kafka does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> None:
        command = [*self._java("kafka.Kafka"), self._settings_path]
        self._process = Process(command, output_path=self._folder / "kafka.txt")
        try:
            self._process.wait_for_line("Kafka Server started", timeout_s=START_TIMEOUT_S)
        except BaseException:
            self._process.kill()
            raise

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(timeout_s=STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def output(self) -> str:
        return self._process.output() if self._process else ""

    @property
    def _settings_path(self) -> Path:
        return self._folder / "server.properties"

    def _write_settings(self) -> None:
        broker, controller = f"{HOST}:{self._port}", f"{HOST}:{self._controller_port}"
        settings = SETTINGS | {
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._folder / "data"),
        }
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        self._settings_path.write_text("".join(lines))

    def _java(self, main_class: str) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        return ["java", *JVM_OPTIONS, logging, "-cp", f"{jars_dir()}/*", main_class]


def main(arguments: list[str]) -> int:
    """`fetch` brings the jars; anything else is wrong usage. Returns the exit code."""
    if arguments != ["fetch"]:
        print("usage: python -m tests.kit.kafka fetch", file=sys.stderr)
        return 2
    try:
        fetch_jars()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"could not fetch Apache Kafka {KAFKA_VERSION}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
