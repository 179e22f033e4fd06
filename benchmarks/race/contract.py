"""What a contestant is told, and what it hands back: the contestant's side of the race.

A contestant is a process. The harness tells it by environment variables where the log is; it counts
every event's `delta` per counter and minute, and writes one JSON document when it is done. This
module needs the standard library alone, so that peers in environments of their own can use it.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Task:
    """What to count, from where, and where to write what came out.

    `ends` has the offset after the last event of each partition: workers of this pipeline append
    records of their own, so the log may be longer than its events. `clickhouse` is for those that
    asked for one, and empty otherwise.
    """

    kafka: str
    topic: str
    events: int
    partitions: int
    result: Path
    folder: Path
    ends: tuple[int, ...] = ()
    clickhouse: str = ""

    def env(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "RACE_KAFKA": self.kafka,
            "RACE_TOPIC": self.topic,
            "RACE_EVENTS": str(self.events),
            "RACE_PARTITIONS": str(self.partitions),
            "RACE_RESULT": str(self.result),
            "RACE_FOLDER": str(self.folder),
            "RACE_ENDS": ",".join(map(str, self.ends)),
            "RACE_CLICKHOUSE": self.clickhouse,
        }


def task_of(env: Mapping[str, str] = os.environ) -> Task:
    """What this process was told. Raises KeyError when it was not started by the harness."""
    return Task(
        kafka=env["RACE_KAFKA"],
        topic=env["RACE_TOPIC"],
        events=int(env["RACE_EVENTS"]),
        partitions=int(env["RACE_PARTITIONS"]),
        result=Path(env["RACE_RESULT"]),
        folder=Path(env["RACE_FOLDER"]),
        ends=tuple(map(int, filter(None, env.get("RACE_ENDS", "").split(",")))),
        clickhouse=env.get("RACE_CLICKHOUSE", ""),
    )


def count_name(counter: str, at_ms: int) -> str:
    """Counter and minute as one text: a key of `counts`."""
    return f"{counter} {at_ms // WINDOW_MS}"


class Stopwatch:
    """Measures from the first events in hand to the last; the first are not counted as work."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._started_s = 0.0
        self._seconds = 0.0
        self._first_events = 0
        self.events = 0

    def saw(self, events: int) -> None:
        """So many more events are in hand."""
        if not self.events:
            self._began_s, self._started_s = time.time(), time.perf_counter()
            self._first_events = events
        self.events += events

    def stop(self) -> None:
        """All is counted, and stored where this contestant stores it."""
        self._seconds = time.perf_counter() - self._started_s

    def write(self, path: Path, counts: Mapping[str, int] | None) -> None:
        """Say what was measured, and stop first if nobody did."""
        if not self._seconds:
            self.stop()
        write_result(
            path,
            events=self.events - self._first_events,
            seconds=self._seconds,
            began_s=self._began_s,
            counts=counts,
        )


def write_result(
    path: Path,
    *,
    events: int,
    seconds: float,
    began_s: float,
    counts: Mapping[str, int] | None,
    uniques: Mapping[str, float] | None = None,
) -> None:
    """The document of one turn. The file appears whole or not at all.

    `began_s` is the time of day when the clock started: what processors did before is start-up.
    """
    document: dict[str, Any] = {
        "events": events,
        "seconds": seconds,
        "began_s": began_s,
        "counts": counts,
    }
    if uniques is not None:
        document["uniques"] = uniques
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document))
    unfinished.rename(path)
