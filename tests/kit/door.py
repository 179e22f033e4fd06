"""The embedded ClickHouse for tests, in a process of its own that may be frozen and killed."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.kit.processes import Process

START_TIMEOUT_S = 120
PROGRAM = (sys.executable, "-m", "pipeline.embedded.clickhouse")


class Door:
    """Its data lives in `folder`; the port is chosen at the first start and kept."""

    def __init__(self, folder: Path, port: int = 0, program: Sequence[str] = PROGRAM) -> None:
        """Nothing is started yet; never blocks."""
        self._folder = folder
        self._port = port
        self._program = program
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def process(self) -> Process:
        if self._process is None:
            raise RuntimeError("this door was never started")
        return self._process

    def start(self) -> None:
        """Block until it answers; raise ProcessFailedError if it does not."""
        command = [*self._program, "--host", "127.0.0.1"]
        command += ["--port", str(self._port), "--data", str(self._folder / "clickhouse")]
        self._process = Process(command, output_path=self._folder / "clickhouse.txt")
        try:
            ready = self._process.wait_for_line(
                r"^clickhouse ready on \S+:(\d+)$", timeout_s=START_TIMEOUT_S
            )
        except BaseException:
            self._process.kill()
            raise
        self._port = int(ready.group(1))

    def freeze(self) -> None:
        """It neither answers nor closes a connection from now on."""
        self.process.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was frozen."""
        self.process.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL, if it was started."""
        if self._process is not None:
            self._process.kill()
