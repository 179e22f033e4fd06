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
from tests.kit.kafka_node import HOST, Guarded, data_path, java, settings_path, write_settings
from tests.kit.kafka_ready import ARCHIVE, ready_dir
from tests.kit.processes import Process, free_port

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 40

BROKERS_OF_LONG_FORMS = (
    "embedded",
    pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.prove]),
)
"""Parameters of tests that run on both brokers by `make prove`, and on one otherwise."""


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

    def __init__(
        self,
        folder: Path,
        guarded: Guarded | None = None,
        *,
        port: int | None = None,
        advertised_port: int | None = None,
    ) -> None:
        """Write the settings and lay out the storage; blocks longer the first time ever.

        `advertised_port` is where clients are told to come, if something stands before it.
        """
        self._folder = folder
        self._port = port or free_port()
        self._process: Process | None = None
        self._archive = ready_dir() / ARCHIVE
        write_settings(folder, self._port, free_port(), guarded, advertised_port=advertised_port)
        shutil.copytree(data_path(ready_dir()), data_path(folder), dirs_exist_ok=True)

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
        command = [*self._java("kafka.Kafka"), settings_path(self._folder)]
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

    def _java(self, main_class: str) -> list[str | Path]:
        return java(self._folder, main_class, f"-XX:SharedArchiveFile={self._archive}")


def main(arguments: list[str]) -> int:
    """`fetch` brings the jars and what makes starts quick. Returns the exit code: 2 for others."""
    if arguments != ["fetch"]:
        print("usage: python -m tests.kit.kafka fetch", file=sys.stderr)
        return 2
    try:
        fetch_jars()
        ready_dir()
    except (OSError, subprocess.SubprocessError, AssertionError) as error:
        print(f"could not fetch Apache Kafka {KAFKA_VERSION}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
