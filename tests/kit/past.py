"""An embedded log whose clock is behind by as much as a test wants: what takes hours, in seconds.

It is the log itself, in a thread of this process, since a clock cannot be passed to another one.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc

from pipeline.clock import SystemClock
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.running import running
from pipeline.local.past import PARTITIONS, write_past
from pipeline.producer import Producer
from pipeline.synthetic import SyntheticStream
from schemas.addresses import KafkaAddress
from tests.kit.tally import RunningTally, tally_up

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 20
CATCH_UP_S = 120
CAUGHT_UP = (
    "SELECT countIf(log_time >= {0}) FROM "
    "(SELECT shard, max(toUnixTimestamp(log_time)) AS log_time FROM tally.positions GROUP BY shard)"
)
"""How many shards are past a moment: heartbeats come after what was in the log."""

RATE = 500
"""Of a demo's past: enough to trend, and quickly counted."""


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


@contextmanager
def tally_with_past(folder: Path) -> Iterator[RunningTally]:
    """`tally up` on a log that has the past of a new demo, so that hashtags trend.

    The past is counted when this returns: what is produced then does not wait behind it.
    """
    clock = SystemClock()
    asyncio.run(write_past(folder / "data" / "log", clock, RATE))
    written_s = clock.now_ms() // 1000
    with tally_up(folder) as tally:
        tally.wait_for(CAUGHT_UP.format(written_s), [(PARTITIONS,)], timeout_s=CATCH_UP_S)
        yield tally


@contextmanager
def hashtags_go_on(tally: RunningTally) -> Iterator[None]:
    """The stream of that past, on and on: in every minute something trends, however slow we are."""
    ended = threading.Event()

    def go_on() -> None:
        clock = SystemClock()
        stream = SyntheticStream(seed=1)
        with Producer(KafkaAddress(tally.kafka)) as producer:
            while not ended.wait(1):
                events = stream.events(clock.now_ms(), RATE)
                hashtags = pc.starts_with(events["counter"], "hashtag:")
                producer.increment_many(events.filter(hashtags))

    thread = threading.Thread(target=go_on, name="hashtags")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(STOP_TIMEOUT_S)
        assert not thread.is_alive()
