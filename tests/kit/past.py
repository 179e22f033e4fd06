"""An embedded log whose clock is behind by as much as a test wants: what takes hours, in seconds.

It is the log itself, in a thread of this process, since a clock cannot be passed to another one.
"""

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path

from pipeline.clock import SystemClock
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.running import running

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 20


class LateClock(SystemClock):
    """The machine's clock, `behind_s` seconds ago."""

    def __init__(self, behind_s: float) -> None:
        self.behind_s = behind_s

    def now_ms(self) -> int:
        return super().now_ms() - round(self.behind_s * 1000)


class PastLog:
    """A log that answers like any other. What is written to it happens so long ago."""

    def __init__(self, folder: Path, behind_s: float) -> None:
        """Nothing is started yet; never blocks."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._clock = LateClock(behind_s)
        self._port: Future[int] = Future()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="past-log")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port.result(0)}"

    def start(self) -> None:
        """Block until it listens; raises what keeps it from that."""
        self._thread.start()
        self._port.result(START_TIMEOUT_S)

    def catch_up(self, behind_s: float) -> None:
        """Be behind by less from now on."""
        assert behind_s <= self._clock.behind_s
        self._clock.behind_s = behind_s

    def kill(self) -> None:
        """End it, if it was started; may be repeated."""
        if self._stop is not None:
            loop, stopped = self._stop
            self._stop = None
            loop.call_soon_threadsafe(stopped.set)
            self._thread.join(STOP_TIMEOUT_S)
            assert not self._thread.is_alive()

    async def _run(self) -> None:
        stopped = asyncio.Event()
        self._stop = asyncio.get_running_loop(), stopped
        try:
            broker = Broker(self._folder, self._clock, Fsync.SECOND)
            async with running(broker, "127.0.0.1", 0) as log:
                self._port.set_result(log.port)
                await stopped.wait()
        except BaseException as error:
            if not self._port.done():
                self._port.set_exception(error)
            raise
