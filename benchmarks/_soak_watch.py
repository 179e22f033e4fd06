"""Watches processes and a web API from threads while a load runs."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx
from clickhouse_connect.driver.exceptions import ClickHouseError

from benchmarks._soak_flat import Asked
from benchmarks._soak_strict import Trickle
from benchmarks._soak_traffic import COUNTERS, Population
from tests.kit.processes import resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks._soak_flat import Series

MIB = 1 << 20
SAMPLE_EVERY_S = 2.0
KNOWN_EVERY_S = 10.0
READ_EVERY_S = 0.2
COMMAND_EVERY_S = 0.5
TIMEOUT_S = 20.0
COUNTED_AFTER_S = 15.0
"""What is asked for was there so long before, so that there is something to read of it."""

_POPULATIONS = {family: Population(f"{family}:key-", size) for family, size in COUNTERS.items()}
_EXACT = ("likes", "orders", "likes", "views", "likes", "orders")
_READ_COUNTERS = 20


def open_files(pid: int) -> int:
    """How many handles a process has open; raises FileNotFoundError when it is gone."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def read_path(number: int, at_s: float) -> tuple[str, str]:
    """The read with this number, at that second of the load: its kind, and what it asks for.

    Six of ten are exact totals of counters that are counted then. Pure.
    """
    turn, counter = number % 10, number // 10 % _READ_COUNTERS
    then_s = max(0.0, at_s - COUNTED_AFTER_S)
    family = _EXACT[turn] if turn < len(_EXACT) else "likes"
    name = f"counters/{_POPULATIONS[family].name(counter, then_s)}"
    if turn < len(_EXACT):
        return "exact", f"/api/v1/{name}/exact"
    others = (name, f"{name}/uniques", "families/likes/top?last=10m", "families/likes/trending")
    return "other", f"/api/v1/{others[turn - len(_EXACT)]}"


def _get(client: httpx.Client, path: str) -> None:
    client.get(path).raise_for_status()


class Watch:
    """As a context: memory and handles of each process, reads, and strict commands."""

    def __init__(
        self, pids: Mapping[str, int], known: Mapping[str, Callable[[float], float]], web: str
    ) -> None:
        """Nothing is watched yet. `known` tells the bytes that a process is known to need."""
        self._pids = pids
        self._known = known
        self._web = web
        self.memory_mib: dict[str, Series] = {name: [] for name in pids}
        self.known_mib: dict[str, Series] = {name: [] for name in known}
        self.handles: dict[str, Series] = {name: [] for name in pids}
        self.reads_ms: dict[str, list[tuple[float, float]]] = {"exact": [], "other": []}
        self.commands_ms: list[tuple[float, float]] = []
        self.trickle = Trickle()
        self.failed: dict[str, list[str]] = {"reads": [], "commands": [], "known": []}
        self._began_s = time.monotonic()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=one, name=one.__name__, daemon=True)
            for one in (self._sample, self._learn, self._read, self._command)
        ]

    def __enter__(self) -> Self:
        """Nothing is left running at the end, whatever it ends by."""
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S * 2)

    def stop(self) -> None:
        """Blocks until what was begun has ended. Raises RuntimeError if that ended before."""
        ended = [thread.name for thread in self._threads if not thread.is_alive()]
        self.__exit__()
        if ended:
            raise RuntimeError(f"watching broke off: {', '.join(ended)}; see above")

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def asked(self) -> list[Asked]:
        """How many reads and commands there were, and how many had no answer."""
        reads = sum(map(len, self.reads_ms.values()))
        return [
            Asked("reads", reads, len(self.failed["reads"])),
            Asked("strict commands", self.trickle.asked, len(self.failed["commands"])),
        ]

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            at_s = self.elapsed_s()
            for name, pid in self._pids.items():
                self.memory_mib[name].append((at_s, resident_bytes(pid) / MIB))
                self.handles[name].append((at_s, float(open_files(pid))))

    def _learn(self) -> None:
        while not self._stopped.wait(KNOWN_EVERY_S):
            for name, ask in self._known.items():
                at_s = self.elapsed_s()
                try:
                    self.known_mib[name].append((at_s, ask(at_s) / MIB))
                except ClickHouseError as error:
                    self.failed["known"].append(repr(error))

    def _read(self) -> None:
        number = 0
        with httpx.Client(base_url=self._web, timeout=TIMEOUT_S) as client:
            while not self._stopped.wait(READ_EVERY_S):
                kind, path = read_path(number, self.elapsed_s())
                number += 1
                self._time(self.reads_ms[kind], "reads", partial(_get, client, path))

    def _command(self) -> None:
        with httpx.Client(base_url=self._web, timeout=TIMEOUT_S) as client:
            while not self._stopped.wait(COMMAND_EVERY_S):
                self._time(self.commands_ms, "commands", partial(self.trickle.ask, client))

    def _time(self, taken: list[tuple[float, float]], kind: str, ask: Callable[[], object]) -> None:
        began_s = time.monotonic()
        try:
            ask()
        except httpx.HTTPError as error:
            self.failed[kind].append(repr(error))
        # One that was given up is as slow as the time that was waited for it.
        took_s = time.monotonic() - began_s
        taken.append((began_s - self._began_s, took_s * 1000))
