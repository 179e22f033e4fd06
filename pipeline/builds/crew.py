"""The worker processes of a replay: several share the partitions, as workers always do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pipeline.builds.members import MEMBER_S
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from types import TracebackType

STOP_TIMEOUT_S = 40.0
DEATHS_MAX = 5
"""So many ends of workers are borne, each with a new start; then somebody must look."""

_LAST_LINES = 5
_LINE_CHARS_MAX = 300


class Crew:
    """Workers that count into one build. A context manager: they end with it, and with its process.

    Use it from the main thread: the kernel ties children to the thread that started them.
    """

    def __init__(self, build: int, size: int) -> None:
        self.size = size
        # An address for metrics is one worker's, perhaps that of the process that starts these.
        self._environment = {**os.environ, "TALLY_BUILD": str(build), "TALLY_METRICS": ""}
        self._folder = tempfile.TemporaryDirectory(prefix="tally-replay-")
        self._children: list[subprocess.Popen[bytes]] = []
        self._deaths = 0
        self._died_s = float("-inf")

    def __enter__(self) -> Self:
        for number in range(self.size):
            self._children.append(self._start(number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def look(self) -> None:
        """Start those anew that died. Raises OperatorError with their last words if many did."""
        for number, child in enumerate(self._children):
            if child.poll() is None:
                continue
            self._deaths += 1
            self._died_s = time.monotonic()
            if self._deaths > DEATHS_MAX:
                raise OperatorError(
                    f"workers of the replay ended {self._deaths} times; the last one said: "
                    f"{self._last_words(number)}"
                )
            self._children[number] = self._start(number)

    def is_steady(self) -> bool:
        """Whether none died lately: one that did is a member of the group for a while."""
        return time.monotonic() - self._died_s > MEMBER_S

    def stop(self) -> None:
        """End them in order, which takes as long as a checkpoint."""
        for child in self._children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for child in self._children:
            try:
                child.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children.clear()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pipeline.local.tied", str(os.getpid())]
        command += [sys.executable, "-m", "pipeline.cli", "worker"]
        with self._output(number).open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - our own commands
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )

    def _output(self, number: int) -> Path:
        return Path(self._folder.name) / f"worker-{number}.txt"

    def _last_words(self, number: int) -> str:
        lines = self._output(number).read_text(errors="replace").splitlines()
        return " / ".join(lines[-_LAST_LINES:])[-_LINE_CHARS_MAX:]
