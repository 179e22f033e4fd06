"""`tally up` on free ports, as somebody who follows the documentation runs it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kit.processes import wait_until
from tests.kit.tied import start_tied

START_S = 120.0
STOP_S = 60.0


@dataclass(frozen=True)
class Found:
    """Where its parts listen, each as host:port."""

    kafka: str
    clickhouse: str
    web: str


@contextmanager
def running_up(data: Path) -> Iterator[Found]:
    """Starts it, waits until all is healthy, and stops it in order, also on failure."""
    ports = ("--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0")
    argv = [sys.executable, "-m", "pipeline.cli", "up", "--data", str(data), *ports]
    pipe = subprocess.PIPE
    with start_tied(argv, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            file = data / "addresses.json"

            def healthy() -> bool:
                assert process.poll() is None, process.communicate()[0]
                return file.exists()

            wait_until(healthy, "tally up is healthy", timeout_s=START_S)
            told = json.loads(file.read_text())
            yield Found(told["kafka"], told["clickhouse"].removeprefix("http://"), told["web"])
            process.terminate()
            process.communicate(timeout=STOP_S)
        finally:
            process.kill()
