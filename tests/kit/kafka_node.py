"""How one node of a real Apache Kafka is set up for tests: settings, logging, and its command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.kafka_jars import jars_dir

HOST = "127.0.0.1"
# A fixed id: every node is a cluster of its own, on ports of its own, so ids cannot be mixed up.
CLUSTER_ID = "dGFsbHktdGVzdC1rYWZrYQ"
# One small compiler and one small collector: on two cores they start in half the time.
JVM_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

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


def settings_path(folder: Path) -> Path:
    """Where a node's settings are."""
    return folder / "server.properties"


def data_path(folder: Path) -> Path:
    """Where a node keeps its data."""
    return folder / "data"


@dataclass(frozen=True)
class Guarded:
    """Listeners beside the plain one, by Kafka's name for their protocol, and their settings."""

    ports: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def write_settings(
    folder: Path,
    port: int,
    controller_port: int,
    guarded: Guarded | None = None,
    *,
    advertised_port: int | None = None,
) -> None:
    """Write all that a node in this folder reads at its start.

    `advertised_port` is where clients are told to come, if something stands before it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    guarded = guarded or Guarded()
    ports = {"PLAINTEXT": port, **guarded.ports}
    listeners = _listed(ports)
    controller = f"{HOST}:{controller_port}"
    settings = SETTINGS | {
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "advertised.listeners": _listed({**ports, "PLAINTEXT": advertised_port or port}),
        "controller.quorum.voters": f"1@{controller}",
        "log.dirs": str(data_path(folder)),
        **guarded.settings,
    }
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    settings_path(folder).write_text("".join(lines))
    (folder / "log4j2.properties").write_text(LOGGING)


def _listed(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{number}" for name, number in ports.items())


def java(folder: Path, main_class: str, *options: str) -> list[str | Path]:
    """The command that runs a class of Kafka; its arguments are to be added.

    The jars are named one by one: an archive of classes is good for one order of them only.
    """
    logging = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    jars = ":".join(sorted(map(str, jars_dir().glob("*.jar"))))
    return ["java", *JVM_OPTIONS, *options, logging, "-cp", jars, main_class]
