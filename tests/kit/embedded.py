"""The embedded log as a Broker for tests, in a process of its own."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.kit.processes import Process

START_TIMEOUT_S = 60
# kio imports Hypothesis where it is installed, which users have not: half of the time to start.
AS_INSTALLED = """\
import runpy, sys
sys.modules["hypothesis"] = None
runpy.run_module("pipeline.embedded.log", run_name="__main__", alter_sys=True)
"""


class EmbeddedLog:
    """A Broker. Its data lives in `folder`; the port is chosen at the first start and kept."""

    name = "embedded"

    def __init__(
        self,
        folder: Path,
        *,
        fsync: str = "second",
        port: int = 0,
        program: Sequence[str] = (sys.executable, "-c", AS_INSTALLED),
    ) -> None:
        """Nothing is started yet; never blocks. `program` is the log, with its own clock, say."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._fsync = fsync
        self._port = port
        self._program = program
        self._process: Process | None = None

    @property
    def data(self) -> Path:
        """The broker's data folder, for tests that damage it on purpose."""
        return self._folder / "data"

    @property
    def bootstrap(self) -> str:
        if not self._port:
            raise RuntimeError("the embedded log was never started")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        if self._process is None or not self._process.running:
            raise RuntimeError("this embedded log does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def process(self) -> Process | None:
        """The last one; None before the first start."""
        return self._process

    @property
    def exit_code(self) -> int | None:
        """How the last process ended; None while it runs or before the first start."""
        return self._process.exit_code if self._process else None

    def start(self, *, fault: str | None = None) -> None:
        """As Broker.start; `fault` names a point, as in TALLY_LOG_FAULT, where it shall die."""
        command: list[str | Path] = [*self._program, "--data", self.data]
        command += ["--host", "127.0.0.1", "--port", str(self._port), "--fsync", self._fsync]
        self._process = Process(
            command,
            output_path=self._folder / "log.txt",
            env={"TALLY_LOG_FAULT": fault} if fault else None,
        )
        try:
            ready = self._process.wait_for_line(
                r"^log ready on \S+:(\d+)$", timeout_s=START_TIMEOUT_S
            )
        except BaseException:
            self._process.kill()
            raise
        self._port = int(ready.group(1))

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def output(self) -> str:
        return self._process.output() if self._process else ""
