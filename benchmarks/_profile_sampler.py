"""A thread that tells where the others of its process spend processors' time.

It looks at all stacks every few milliseconds. What a thread had of a processor since the last look,
by the kernel's own account, goes to where its stack stands now: so who waits costs nothing, and
sums are right whatever the looks miss. A look needs Python's lock, so it is made to be handed over
quickly: otherwise threads would mostly be seen where they give it up by themselves, in system
calls. One within a long call that keeps the lock is seen at its end, in the function that called.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks._profile_stages import NATIVE, stage_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LOOK_EVERY_S = 0.01
SWITCH_S = 0.0002
"""After so long a thread that computes hands Python's lock over to one that waits for it."""

WRITE_EVERY_S = 0.2
SAMPLES = "TALLY_BENCH_SAMPLES"
"""The environment variable that names the file of a worker's sampler."""

Place = tuple[str, str]
"""A stage, and the function that decided it, or stands there."""


class Sampler(threading.Thread):
    """Writes the seconds by place to a file, about five times a second, whole each time."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="sampler", daemon=True)
        self._path = path
        self._spent_s: dict[Place, float] = defaultdict(float)
        self._seen_ns: dict[int, int] = {}

    def run(self) -> None:
        """Look and write for ever."""
        sys.setswitchinterval(SWITCH_S)
        written_s = time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_S)
            self.look()
            if time.monotonic() - written_s >= WRITE_EVERY_S:
                self._write()
                written_s = time.monotonic()

    def look(self) -> None:
        """Add what threads had since the last look. Its own is nobody's."""
        spent_ns = {tid: ns - self._seen_ns.get(tid, 0) for tid, ns in _threads_ns().items()}
        for tid, ns in spent_ns.items():
            self._seen_ns[tid] = self._seen_ns.get(tid, 0) + ns
        frames = sys._current_frames()
        known = {
            thread.native_id: frames.get(thread.ident or 0) for thread in threading.enumerate()
        }
        for tid, ns in spent_ns.items():
            if ns and tid != self.native_id:
                self._spent_s[_place(known.get(tid))] += ns / 1e9

    def _write(self) -> None:
        rows = [[*place, seconds] for place, seconds in self._spent_s.items()]
        whole = self._path.with_suffix(".new")
        whole.write_text(json.dumps(rows))
        whole.replace(self._path)


def read(path: Path) -> dict[Place, float]:
    """What a sampler has written last; nothing if it has not yet."""
    if not path.exists():
        return {}
    return {(stage, place): s for stage, place, s in json.loads(path.read_text())}


def _place(frame: FrameType | None) -> Place:
    if frame is None:
        return NATIVE, "Arrow, allocator, libraries"
    stack = list(_outwards(frame))
    modules = [_module(one) for one in stack]
    stage = stage_of(modules)
    deciding = next((at for at, name in enumerate(modules) if stage_of([name]) == stage), 0)
    return stage, f"{modules[deciding]}.{stack[deciding].f_code.co_qualname}"


def _outwards(frame: FrameType) -> Iterator[FrameType]:
    one: FrameType | None = frame
    while one is not None:
        yield one
        one = one.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _threads_ns() -> dict[int, int]:
    """By thread of this process: the nanoseconds it had on processors."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended meanwhile.
    return found
