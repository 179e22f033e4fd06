"""Adjustments, made one after the other by the command, and where the log has each of them."""

import random
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from tests.integration.backup.stream import Cut
from tests.kit.tally import RunningTally

FAMILY = "mended"
PAUSE_S = 0.3
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Adjusted:
    """One that was acknowledged, of one minute."""

    id: str
    counter: str
    region: str
    window_s: int
    by: int
    partition: int
    offset: int


class Adjuster:
    """As a context manager it adjusts counters without end until `finish` or the block's end."""

    def __init__(self, tally: RunningTally, seed: int) -> None:
        self.made: list[Adjusted] = []
        self._tally = tally
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="adjuster", daemon=True)

    def finish(self) -> None:
        """Block until the last one is acknowledged."""
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def until(self, ends: list[int]) -> Cut:
        """The truth of a log whose partitions end at these offsets."""
        cut = Cut()
        for one in self.present(ends):
            cut.messages += 1
            cut.truth.windows[one.counter, one.region, one.window_s] += one.by
        return cut

    def present(self, ends: list[int]) -> list[Adjusted]:
        """Those that a log with these ends has."""
        return [one for one in self.made if one.offset < ends[one.partition]]

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self._adjust(f"mend-{len(self.made)}")

    def _adjust(self, id_: str) -> None:
        counter = f"{FAMILY}:key-{self._random.randrange(5)}"
        region = self._random.choice(("eu", ""))
        by = self._random.choice((-3, 5, 8))
        window_s = int(time.time()) // 60 * 60
        window = datetime.fromtimestamp(window_s, UTC).isoformat()
        about = ("--region", region, "--grain", "1m", "--window", window, "--id", id_)
        why = ("--who", "ada", "--why", "a test")
        told = self._tally.json("adjust", counter, "--by", str(by), *about, *why)
        partition, offset = map(int, told["receipt"].split(":"))
        self.made.append(Adjusted(id_, counter, region, window_s, by, partition, offset))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
