"""Watches processes and a web API from threads while a load runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.kit.processes import resident_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks._soak_flat import Series

MIB = 1 << 20
SAMPLE_EVERY_S = 2.0
READ_EVERY_S = 0.2
READ_TIMEOUT_S = 20.0


def open_files(pid: int) -> int:
    """How many handles a process has open; raises FileNotFoundError when it is gone."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


class Watch:
    """From `start` to `stop`: memory and handles of each process, and how long reads take."""

    def __init__(self, pids: Mapping[str, int], web: str, counters: list[str]) -> None:
        """Nothing is watched yet. `counters` are read in turn, exact."""
        self._pids = pids
        self._web = web
        self._counters = counters
        self.memory_mib: dict[str, Series] = {name: [] for name in pids}
        self.handles: dict[str, Series] = {name: [] for name in pids}
        self.reads_ms: list[tuple[float, float]] = []
        self.failed_reads: list[str] = []
        self._began_s = time.monotonic()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=one, name=one.__name__, daemon=True)
            for one in (self._sample, self._read)
        ]

    def start(self) -> None:
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Blocks until what was begun has ended."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(READ_TIMEOUT_S * 2)

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            at_s = self.elapsed_s()
            for name, pid in self._pids.items():
                self.memory_mib[name].append((at_s, resident_bytes(pid) / MIB))
                self.handles[name].append((at_s, float(open_files(pid))))

    def _read(self) -> None:
        number = 0
        with httpx.Client(base_url=self._web, timeout=READ_TIMEOUT_S) as client:
            while not self._stopped.wait(READ_EVERY_S):
                number += 1
                counter = self._counters[number % len(self._counters)]
                began_s = time.monotonic()
                try:
                    answer = client.get(f"/api/v1/counters/{counter}/exact")
                    answer.raise_for_status()
                except httpx.HTTPError as error:
                    self.failed_reads.append(repr(error))
                # One that was given up is as slow as the time that was waited for it.
                took_s = time.monotonic() - began_s
                self.reads_ms.append((began_s - self._began_s, took_s * 1000))
