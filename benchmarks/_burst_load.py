"""A program that sends increments steadily, then ten times as many, then steadily again.

Run by benchmarks.burst: python -m benchmarks._burst_load KAFKA RATE CALM_S BURST_S TRUTH. It says
when each part begins, and goes on steadily until SIGTERM; then it writes what it sent to the file
TRUTH and says how much that was.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.producer import BufferFullError, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TIMES = 10
POOL = 1_000_000
COUNTERS = 50_000
MEMBERS = 100_000
ZIPF = 1.3
TURN_S = 0.02
LATE_S_MAX = 0.25
"""What a late turn makes up for; a machine that is too slow sends less, and says so."""

FLUSH_TIMEOUT_S = 300


class Pool:
    """Increments that are sent over and over, in order, and how often each minute had each.

    What is sent is a piece of the pool, so its truth is two marks in a column: begun and ended.
    """

    def __init__(self, seed: int = 1) -> None:
        draw = np.random.default_rng(seed)
        self._counters = (draw.zipf(ZIPF, POOL) - 1) % COUNTERS
        names = pa.array([f"likes:post-{number}" for number in range(COUNTERS)])
        members = pa.array([f"user-{number}" for number in range(MEMBERS)])
        self._columns = pa.table(
            {
                "counter": names.take(pa.array(self._counters)),
                "member": members.take(pa.array(draw.integers(0, MEMBERS, POOL))),
            }
        )
        self._next = 0
        self._marks: dict[int, NDArray[np.int64]] = {}

    def next(self, rows: int, at_ms: int) -> tuple[pa.Table, Callable[[], None]]:
        """The next so many, or fewer at the pool's end; and what to call once they are accepted."""
        start, end = self._next, min(POOL, self._next + rows)
        piece = self._columns.slice(start, end - start)

        def accepted() -> None:
            marks = self._marks.setdefault(at_ms // 60_000 * 60, np.zeros(POOL + 1, np.int64))
            marks[start] += 1
            marks[end] -= 1
            self._next = end % POOL

        return piece.append_column("at", pa.array(np.full(end - start, at_ms))), accepted

    def write(self, path: Path) -> None:
        """The counts by the minute's start in seconds: a row of all counters for each."""
        counts = [
            np.bincount(self._counters, np.cumsum(marks[:POOL]), COUNTERS).astype(np.int64)
            for marks in self._marks.values()
        ]
        np.savez(path, minutes_s=np.array([*self._marks]), counts=np.array(counts))


@dataclass
class Sent:
    """How many increments were accepted and refused, and the seconds it took."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0


def send(producer: Producer, pool: Pool, rate: float, goes_on: Callable[[float], bool]) -> Sent:
    """Send by the clock for as long as it goes on."""
    sent, due = Sent(), 0.0
    began_s = last_s = time.monotonic()
    while goes_on((now_s := time.monotonic()) - began_s):
        due += rate * min(LATE_S_MAX, now_s - last_s)
        last_s = now_s
        while (rows := int(due)) > 0:
            piece, accepted = pool.next(rows, time.time_ns() // 1_000_000)
            due -= piece.num_rows
            try:
                producer.increment_many(piece)
            except BufferFullError:
                sent.refused += piece.num_rows
                continue
            accepted()
            sent.accepted += piece.num_rows
        time.sleep(max(0.0, now_s + TURN_S - time.monotonic()))
    sent.seconds = time.monotonic() - began_s
    return sent


def say(event: str, **more: float) -> None:
    """One line for whoever runs this."""
    document = {"event": event, "at_ms": time.time_ns() // 1_000_000, **more}
    print(json.dumps(document), flush=True)


def main() -> None:
    kafka, rate_text, calm_text, burst_text, truth = sys.argv[1:]
    rate, calm_s, burst_s = float(rate_text), float(calm_text), float(burst_text)
    pool, ended = Pool(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Producer(kafka, when_full="raise", on_unknown=lambda _: None) as producer:

        def when_stored() -> None:
            producer.flush(FLUSH_TIMEOUT_S)
            say("burst stored")

        say("calm begins")
        parts = [send(producer, pool, rate, lambda at_s: at_s < calm_s)]
        say("burst begins")
        parts.append(send(producer, pool, TIMES * rate, lambda at_s: at_s < burst_s))
        say("burst ended", accepted=parts[1].accepted, seconds=parts[1].seconds)
        threading.Thread(target=when_stored, daemon=True).start()
        parts.append(send(producer, pool, rate, lambda _: not ended.is_set()))
        producer.flush(FLUSH_TIMEOUT_S)
        pool.write(Path(truth))
        say(
            "ended",
            accepted=sum(part.accepted for part in parts),
            refused=sum(part.refused for part in parts),
            stored=producer.stored,
            unknown=producer.unknown,
        )


if __name__ == "__main__":
    main()
