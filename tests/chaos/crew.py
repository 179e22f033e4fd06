"""The senders of a run: processes of every kind, killed and started again, finished in order."""

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.ends import Ends
from tests.kit.processes import Process

KINDS = ("impatient", "foreign", "web", "buyers", "patient")
"""All but the last may be killed: what a patient one sends cannot all be told apart in the log."""

BUYERS = "buyers"
"""They ask strict counters, and have a ledger of answers instead of a journal."""

START_TIMEOUT_S = 240
FINISH_TIMEOUT_S = 480


class Crew:
    """One sender of each kind. Thread-safe."""

    def __init__(self, folder: Path, seed: int, rate: float, addresses: dict[str, Any]) -> None:
        """`rate` increments a second of each of them. Nothing is started yet."""
        self._folder = folder
        self._seed = seed
        self._rate = rate
        self._addresses = json.dumps(addresses)
        self._locks = [threading.Lock() for _ in KINDS]
        self._processes: list[Process | None] = [None] * len(KINDS)
        self._starts = 0
        self.ends = Ends(folder)
        """How those ended that had ended by themselves before they were to be killed."""

    @property
    def journals(self) -> Sequence[Path]:
        return [self._path(kind) for kind in KINDS if kind != BUYERS]

    @property
    def ledgers(self) -> Sequence[Path]:
        """Of strict commands."""
        return [self._path(BUYERS)]

    def start(self) -> None:
        """Block until all of them send."""
        for number in range(len(KINDS)):
            self._start(number)
        for process in self._processes:
            assert process is not None
            process.wait_for_line("^sending", timeout_s=START_TIMEOUT_S)

    def kill(self, number: int, for_s: float) -> None:
        """Kill one, and start it again after so long."""
        chosen = number % (len(KINDS) - 1)
        with self._locks[chosen]:
            process = self._processes[chosen]
            if process is not None:
                self.ends.note(KINDS[chosen], process)
                process.kill()
            time.sleep(for_s)
            self._start(chosen)

    def finish(self) -> None:
        """Block until everything is acknowledged; raises ProcessFailedError when it is not."""
        for process in self._processes:
            assert process is not None
            # One that has just begun is not ready to hear of it.
            process.wait_for_line("^sending", timeout_s=START_TIMEOUT_S)
            process.send(signal.SIGTERM)
        for process in self._processes:
            assert process is not None
            process.wait_for_line("^finished", timeout_s=FINISH_TIMEOUT_S)

    def close(self) -> None:
        """Kill them all."""
        for process in self._processes:
            if process is not None:
                process.kill()

    def _start(self, number: int) -> None:
        kind = KINDS[number]
        self._starts += 1
        module = "tests.chaos.buyers" if kind == BUYERS else "tests.chaos.sender"
        command = [sys.executable, "-m", module, kind, kind, str(self._seed)]
        command += [str(self._rate), str(self._path(kind)), self._addresses]
        path = self._folder / f"sender-{kind}-{self._starts}.txt"
        self._processes[number] = Process(command, output_path=path)

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.journal"
