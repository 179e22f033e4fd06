"""Keeps a few processes running: starts them in order, restarts the dead, stops them in reverse.

Children live in sessions of their own, so that Ctrl-C in a terminal reaches the supervisor alone
and it decides the order; `pipeline.local.tied` sees to it that they do not outlive it.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pipeline.clock import Clock
from pipeline.errors import OperatorError
from pipeline.local.parts import News, Output, Pace, Part

LAST_LINES = 10
POLL_S = 0.05


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
        self._tell_people = tell
        self._pace = pace or Pace()
        self._outputs = {
            part.name: Output(logs / f"{part.name}.log") for stage in stages for part in stage
        }
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._healthy: set[str] = set()
        self._stop_asked = asyncio.Event()
        self._kill_asked = False
        self._is_stopping = False
        self.on_restart: Callable[[], None] = lambda: None
        self.before_last_stage: Callable[[], Awaitable[None]] | None = None

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

        Raises OperatorError when a part cannot be started, and what `before_last_stage` raises. The
        caller calls `stop` in every case.
        """
        for stage in self._stages:
            if stage is self._stages[-1] and not await self._prepared():
                return False
            for part in stage:
                self._keepers[part.name] = asyncio.create_task(self._keep(part))
            while not all(part.name in self._healthy for part in stage):
                if await self._until_asked(self._pace.probe_every_s):
                    return False
        return True

    async def _prepared(self) -> bool:
        """Runs `before_last_stage`; False when a stop was asked for meanwhile."""
        if self.before_last_stage is None:
            return True
        preparing = asyncio.ensure_future(self.before_last_stage())
        while not preparing.done():
            if await self._until_asked(self._pace.probe_every_s):
                preparing.cancel()
                return False
        preparing.result()
        return True

    async def watch(self) -> None:
        """Returns when a stop is asked for; restarts what dies until then."""
        while not await self._until_asked(POLL_S):
            pass

    async def stop(self) -> None:
        """Ends every child, last stage first, with SIGTERM and, after its time-out, SIGKILL.

        Whether anybody can still be told of it makes no difference.
        """
        self._is_stopping = True
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for stage in reversed(self._stages):
            await asyncio.gather(
                *(self._end(part) for part in stage if part.name in self._children)
            )

    def _tell(self, news: News) -> None:
        # A terminal that is gone is a reason to stop, and none to leave parts running.
        with contextlib.suppress(*((OSError,) if self._is_stopping else ())):
            self._tell_people(news)

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
            trouble = self._launch(part) or await self._until_healthy(part)
            if trouble is None:
                self._healthy.add(part.name)
                self._tell(News(part, "healthy", f"{self._clock.monotonic_s() - began_s:.1f} s"))
                if was_healthy:
                    # The part is up, whether others can be told where or not.
                    with contextlib.suppress(OSError):
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

    def _launch(self, part: Part) -> str | None:
        """Why the part could not even be started; None if it runs."""
        try:
            self._start_process(part)
        except OSError as error:
            return f"could not be started: {error}"
        return None

    def _start_process(self, part: Part) -> None:
        output = self._outputs[part.name].open()
        try:
            self._children[part.name] = subprocess.Popen(  # noqa: S603  the argv is the plan's own
                [sys.executable, "-m", "pipeline.local.tied", str(os.getpid()), *part.argv],
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
        child = self._children.get(part.name)
        return child is not None and child.poll() is None

    def _signal(self, part: Part, number: signal.Signals) -> None:
        """Signals the part and what it started; not a reaped one, whose id may be reused."""
        if self._is_alive(part):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._children[part.name].pid, number)

    def _kill(self, part: Part) -> None:
        """Ends the part for certain and reaps it. Blocks for the moment the kernel needs."""
        self._signal(part, signal.SIGKILL)
        if part.name in self._children:
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
    if code >= 0:
        return f"exited with code {code}"
    names = {one.value: one.name for one in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"
