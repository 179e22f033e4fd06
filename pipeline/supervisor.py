"""Keeps a few processes running: starts them in order, restarts the dead, stops them in reverse.

Children live in sessions of their own, so that Ctrl-C in a terminal reaches the supervisor alone
and it decides the order. They must not outlive it, even when it is killed with SIGKILL and cannot
act: each child is started through this module's `main`, which asks the kernel to kill it with its
parent (PR_SET_PDEATHSIG, which survives exec) and then becomes the part. Doing that in a
`preexec_fn` would run Python between fork and exec of a process with threads, which can deadlock;
a lifeline pipe would need every part to watch it. PR_SET_PDEATHSIG is Linux's own: elsewhere a
killed supervisor leaves its parts running, and the next one finds their ports taken.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.clock import Clock
from pipeline.errors import OperatorError

LOG_BYTES_MAX = 8 * 1024 * 1024
LAST_LINES = 10
POLL_S = 0.05
_PR_SET_PDEATHSIG = 1


class Output:
    """What a part wrote to stdout and stderr: a file, so that neither side waits for the other."""

    def __init__(self, path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._start = 0
        self._searched: dict[str, int] = {}

    def open(self) -> int:
        """A descriptor to append to, which the caller closes.

        A file grown past `bytes_max` is put aside as NAME.log.1 first: at starts only, since a
        running part holds the file open.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > self._bytes_max:
            self.path.replace(self.path.with_name(self.path.name + ".1"))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._start = os.fstat(descriptor).st_size
        self._searched.clear()
        return descriptor

    def said(self, prefix: str) -> bool:
        """Whether the present run wrote a whole line that starts so. Reads each byte once."""
        with self.path.open("rb") as file:
            file.seek(self._searched.setdefault(prefix, self._start))
            for line in file:
                if line.startswith(prefix.encode()) and line.endswith(b"\n"):
                    return True
                if line.endswith(b"\n"):
                    self._searched[prefix] += len(line)
        return False

    def since_start(self, bytes_max: int = 65_536) -> list[str]:
        """The lines of the present run, or of its last `bytes_max` if it wrote more."""
        with self.path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._start, end - bytes_max))
            return file.read(bytes_max).decode("utf-8", "replace").splitlines()


Probe = Callable[[Output], Awaitable[bool]]
"""True when the part does its work. May take a few seconds; may raise OSError, which means no."""


@dataclass(frozen=True)
class Part:
    """One process. `environment` is added to the supervisor's own."""

    name: str
    argv: Sequence[str]
    address: str
    probe: Probe
    ready_timeout_s: float = 30.0
    stop_timeout_s: float = 15.0
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class News:
    """A change of a part's state, for people."""

    part: Part
    state: str
    detail: str = ""
    last_lines: tuple[str, ...] = ()

    def line(self) -> str:
        return (
            f"{self.part.name:<11} {self.part.address:<17} {self.state:<9} {self.detail}".rstrip()
        )


@dataclass(frozen=True)
class Pace:
    """How patient the supervisor is.

    The pause before a restart doubles up to `pause_max_s`, and starts over after a part stayed up
    for `steady_s`. A part that dies before it was ever healthy is given up after `first_starts`.
    """

    probe_every_s: float = 0.1
    probe_timeout_s: float = 5.0
    watch_every_s: float = 5.0
    misses_max: int = 3
    pause_min_s: float = 0.5
    pause_max_s: float = 30.0
    steady_s: float = 60.0
    first_starts: int = 3

    def pause_s(self, previous_s: float, up_s: float) -> float:
        if up_s >= self.steady_s or previous_s == 0.0:
            return self.pause_min_s
        return min(previous_s * 2, self.pause_max_s)


class Supervisor:
    """Runs `stages` in order: the parts of one start together, once the stage before is healthy.

    Use it from the main thread: the kernel ties children to the thread that started them.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[Part]],
        logs: Path,
        clock: Clock,
        tell: Callable[[News], None],
        pace: Pace | None = None,
    ) -> None:
        self._stages = stages
        self._clock = clock
        self._tell = tell
        self._pace = pace or Pace()
        self._outputs = {
            part.name: Output(logs / f"{part.name}.log") for stage in stages for part in stage
        }
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._healthy: set[str] = set()
        self._stop_asked = asyncio.Event()
        self._kill_asked = False
        self.on_restart: Callable[[], None] = lambda: None

    @property
    def pids(self) -> dict[str, int]:
        """Of the parts that run now."""
        return {n: child.pid for n, child in self._children.items() if child.poll() is None}

    def ask_stop(self) -> None:
        """Makes `start` and `watch` return. Never blocks."""
        self._stop_asked.set()

    def kill_now(self) -> None:
        """Makes a running or later `stop` use SIGKILL without waiting. Never blocks."""
        self._kill_asked = True
        self._stop_asked.set()

    async def start(self) -> bool:
        """True when all parts are healthy, False when a stop was asked for meanwhile.

        Raises OperatorError when a part cannot be started. The caller calls `stop` in every case.
        """
        for stage in self._stages:
            for part in stage:
                self._keepers[part.name] = asyncio.create_task(self._keep(part))
            while not all(part.name in self._healthy for part in stage):
                if await self._until_asked(self._pace.probe_every_s):
                    return False
        return True

    async def watch(self) -> None:
        """Returns when a stop is asked for; restarts what dies until then."""
        while not await self._until_asked(POLL_S):
            pass

    async def stop(self) -> None:
        """Ends every child, last stage first, with SIGTERM and, after its time-out, SIGKILL."""
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for stage in reversed(self._stages):
            await asyncio.gather(
                *(self._end(part) for part in stage if part.name in self._children)
            )

    async def _until_asked(self, timeout_s: float) -> bool:
        """Waits for a stop, at most `timeout_s`; raises what a keeper raised."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._stop_asked.wait()
        for keeper in self._keepers.values():
            if keeper.done() and not keeper.cancelled():
                keeper.result()
        return self._stop_asked.is_set()

    async def _keep(self, part: Part) -> None:
        """Runs one part for ever. Raises OperatorError when it never becomes healthy."""
        pause_s = 0.0
        was_healthy = False
        starts = 0
        while True:
            began_s = self._clock.monotonic_s()
            starts += 1
            self._launch(part)
            trouble = await self._until_healthy(part)
            if trouble is None:
                self._healthy.add(part.name)
                self._tell(News(part, "healthy", f"{self._clock.monotonic_s() - began_s:.1f} s"))
                if was_healthy:
                    self.on_restart()
                was_healthy = True
                trouble = await self._until_dead(part)
            self._healthy.discard(part.name)
            lines = tuple(self._outputs[part.name].since_start()[-LAST_LINES:])
            if not was_healthy and (starts >= self._pace.first_starts or self._is_alive(part)):
                self._tell(News(part, "failed", trouble, lines))
                raise OperatorError(
                    f"{part.name} {trouble}; its output is in {self._outputs[part.name].path}"
                )
            self._kill(part)
            pause_s = self._pace.pause_s(pause_s, self._clock.monotonic_s() - began_s)
            self._tell(News(part, "died", f"{trouble}; starting again in {pause_s:.1f} s", lines))
            await asyncio.sleep(pause_s)

    def _launch(self, part: Part) -> None:
        output = self._outputs[part.name].open()
        try:
            self._children[part.name] = subprocess.Popen(  # noqa: S603  the argv is the plan's own
                [sys.executable, "-m", "pipeline.supervisor", str(os.getpid()), *part.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # Unbuffered, so that a last word reaches the file; safe path, so that a folder
                # named `pipeline` where the user happens to stand is not taken for ours.
                env={
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONSAFEPATH": "1",
                    **part.environment,
                },
            )
        finally:
            os.close(output)

    async def _until_healthy(self, part: Part) -> str | None:
        """None once the probe says yes, else what is wrong: it exited, or took too long."""
        deadline_s = self._clock.monotonic_s() + part.ready_timeout_s
        while self._clock.monotonic_s() < deadline_s:
            healthy = await self._probe(part)
            # In this order: an answer counts only if the part lives, for it may be a stranger's.
            if (code := self._children[part.name].poll()) is not None:
                return _ending(code)
            if healthy:
                return None
            await asyncio.sleep(self._pace.probe_every_s)
        return f"was not healthy within {part.ready_timeout_s:g} s"

    async def _until_dead(self, part: Part) -> str:
        """How the part ended. Tells when its probe fails repeatedly, and when it recovers."""
        misses = 0
        next_probe_s = self._clock.monotonic_s() + self._pace.watch_every_s
        while (code := self._children[part.name].poll()) is None:
            if self._clock.monotonic_s() >= next_probe_s:
                misses = 0 if await self._probe(part) else misses + 1
                next_probe_s = self._clock.monotonic_s() + self._pace.watch_every_s
                if misses == self._pace.misses_max:
                    self._healthy.discard(part.name)
                    self._tell(News(part, "unhealthy", "it runs but does not answer"))
                elif misses == 0 and part.name not in self._healthy:
                    self._healthy.add(part.name)
                    self._tell(News(part, "healthy", "it answers again"))
            await asyncio.sleep(POLL_S)
        return _ending(code)

    async def _probe(self, part: Part) -> bool:
        try:
            # Not `wait_for`: until Python 3.12 it can swallow a cancellation, and `stop` would wait
            # for this task for ever.
            async with asyncio.timeout(self._pace.probe_timeout_s):
                return await part.probe(self._outputs[part.name])
        except OSError:  # TimeoutError is one
            return False

    def _is_alive(self, part: Part) -> bool:
        return self._children[part.name].poll() is None

    def _signal(self, part: Part, number: signal.Signals) -> None:
        """Signals the part and what it started; not a reaped one, whose id may be reused."""
        if self._is_alive(part):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._children[part.name].pid, number)

    def _kill(self, part: Part) -> None:
        """Ends the part for certain and reaps it. Blocks for the moment the kernel needs."""
        self._signal(part, signal.SIGKILL)
        self._children[part.name].wait()

    async def _end(self, part: Part) -> None:
        began_s = self._clock.monotonic_s()
        self._signal(part, signal.SIGTERM)
        while self._is_alive(part):
            up_s = self._clock.monotonic_s() - began_s
            if self._kill_asked or up_s >= part.stop_timeout_s:
                self._kill(part)
                self._tell(News(part, "killed", f"after {up_s:.1f} s"))
                return
            await asyncio.sleep(POLL_S)
        self._tell(News(part, "stopped", f"{self._clock.monotonic_s() - began_s:.1f} s"))


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def main(arguments: Sequence[str]) -> None:
    """Becomes the command `arguments[1:]`, tied to the life of its parent `arguments[0]`."""
    parent = int(arguments[0])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    # The parent may have died before the request; then nobody would ever signal this process.
    if os.getppid() != parent:
        sys.exit(1)
    os.execvp(arguments[1], list(arguments[1:]))  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
