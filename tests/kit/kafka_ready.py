"""What lets a real Kafka start in half the time, made once and kept beside its jars.

A formatted data folder, to be copied; and an archive of the classes that a broker loads, which the
JVM maps into memory instead of reading, checking and linking them again.
"""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from tests.kit.kafka_jars import jars_dir
from tests.kit.kafka_node import (
    CLUSTER_ID,
    HOST,
    JVM_OPTIONS,
    data_path,
    java,
    settings_path,
    write_settings,
)
from tests.kit.processes import Process, free_port, wait_until

TIMEOUT_S = 120
ARCHIVE = "classes.jsa"
TOPIC = "warm-up"


def ready_dir() -> Path:
    """A formatted `data` folder, and ARCHIVE. Makes them if need be, which blocks for a while.

    Raises ProcessFailedError or AssertionError when Kafka does not do as it should.
    """
    target = jars_dir() / f"ready-{_fingerprint()}"
    if target.exists():
        return target
    with _alone(), tempfile.TemporaryDirectory(dir=jars_dir(), prefix="making-") as scratch:
        if not target.exists():
            _make(Path(scratch))
            made = Path(scratch) / "made"
            made.mkdir()
            (Path(scratch) / "formatted").rename(data_path(made))
            (Path(scratch) / ARCHIVE).rename(made / ARCHIVE)
            made.rename(target)
    return target


def _fingerprint() -> str:
    """Changes with all that an archive depends on, beside the jars."""
    virtual_machine = Path(shutil.which("java") or "").resolve()
    changed_ns = virtual_machine.stat().st_mtime_ns
    parts = [str(virtual_machine), str(changed_ns), CLUSTER_ID, *JVM_OPTIONS]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@contextmanager
def _alone() -> Iterator[None]:
    """Blocks while another process of tests makes the same."""
    with (jars_dir() / "ready.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path) -> None:
    """Format, then let a broker do what tests ask of one, and archive the classes it loaded."""
    port = free_port()
    write_settings(folder, port, free_port())
    command = [*java(folder, "kafka.tools.StorageTool"), "format", "-t", CLUSTER_ID]
    with Process(
        [*command, "-c", settings_path(folder)], output_path=folder / "format.txt"
    ) as formatting:
        assert formatting.wait(timeout_s=TIMEOUT_S) == 0, formatting.output()
    shutil.copytree(data_path(folder), folder / "formatted")
    command = java(folder, "kafka.Kafka", f"-XX:ArchiveClassesAtExit={folder / ARCHIVE}")
    with Process([*command, settings_path(folder)], output_path=folder / "kafka.txt") as broker:
        broker.wait_for_line("Kafka Server started", timeout_s=TIMEOUT_S)
        _warm_up(f"{HOST}:{port}")
        broker.stop(timeout_s=TIMEOUT_S)
        assert (folder / ARCHIVE).exists(), broker.output()


def _warm_up(bootstrap: str) -> None:
    """A topic, a transaction, and a group that reads it."""
    common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({**common, "transactional.id": TOPIC})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"value", b"key")
    producer.commit_transaction(TIMEOUT_S)
    consumer = Consumer({**common, "group.id": TOPIC, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(1), "the one message", timeout_s=TIMEOUT_S)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
