"""Who takes part: one line each, with what it needs and which share of the events it counts.

A contestant whose program is missing is skipped, with a line that says how to get it.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PEERS = ROOT / ".peers"
STREAMS_JAR = ROOT / "benchmarks/race/kafka_streams/target/kafka-streams-race.jar"
EVERYTHING = ROOT / "benchmarks/race/everything.toml"
"""The rules that this pipeline counts by in the race."""

CEILING = "confluent-kafka, bare"


class Log(Enum):
    """Which log a contestant reads; all hold the same events."""

    PEERS = "JSON, and nothing else"
    JSON = "JSON, to which workers append rules and heartbeats"
    FRAMES = "frames, to which workers append rules and heartbeats"


@dataclass(frozen=True, slots=True)
class Entry:
    """One contestant. `share` is of the events: a rate needs no more of a slow one.

    `is_fed` says that its clock runs while it reads messages, one for each event.
    `needs` are files or programs that must be there, and `how` says how to get them.
    """

    name: str
    command: tuple[str, ...]
    stores: str
    log: Log = Log.PEERS
    share: float = 1.0
    needs: tuple[Path | str, ...] = ()
    how: str = ""
    with_clickhouse: bool = False
    is_counting: bool = True
    is_fed: bool = True

    def missing(self) -> str | None:
        """One line that says what is missing and how to get it, or None when it can run."""
        for need in self.needs:
            is_there = shutil.which(need) if isinstance(need, str) else need.exists()
            if not is_there:
                shown = need if isinstance(need, str) else need.relative_to(ROOT)
                return f"{self.name} is skipped: no {shown}; {self.how}"
        return None


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *arguments)


def _tally(name: str, log: Log, workers: int) -> Entry:
    command = _python("benchmarks.race.tally", str(workers))
    is_fed = log is Log.JSON and workers == 1  # two may read more than one can
    return Entry(name, command, "ClickHouse, changelog", log, with_clickhouse=True, is_fed=is_fed)


def _peer(name: str, package: str, module: str, stores: str, share: float) -> Entry:
    """A Python peer, in the environment that `make peers` made for it."""
    python = PEERS / package / "bin/python"
    command = (str(python), "-m", f"benchmarks.race.{module}")
    return Entry(name, command, stores, share=share, needs=(python,), how="run `make peers`")


ENTRIES = (
    Entry(
        CEILING, _python("benchmarks.race.consumer", "bare"), "nothing: thrown away",
        is_counting=False,
    ),
    _tally("Tally, JSON", Log.JSON, 1),
    _tally("Tally, JSON, 2 workers", Log.JSON, 2),
    _tally("Tally, frames", Log.FRAMES, 1),
    _tally("Tally, frames, 2 workers", Log.FRAMES, 2),
    Entry("confluent-kafka + dict", _python("benchmarks.race.consumer", "dict"), "a dict"),
    Entry(
        "ClickHouse alone, Kafka", _python("benchmarks.race.clickhouse_alone", "kafka"), "chDB",
    ),
    Entry(
        "ClickHouse alone, memory", _python("benchmarks.race.clickhouse_alone", "memory"), "chDB",
        is_fed=False,
    ),
    Entry(
        "Redis INCR", _python("benchmarks.race.redis_incr"), "Redis",
        needs=("redis-server",), how="install it with the system's packages",
    ),
    Entry(
        "Kafka Streams",
        ("java", "-jar", str(STREAMS_JAR)),
        "RocksDB, changelog",
        needs=("java", STREAMS_JAR),
        how="install Java 17 and Maven, and run `make kafka-streams`",
    ),
    _peer("Bytewax", "bytewax", "bytewax_flow", "memory", share=0.2),
    _peer("Quix Streams", "quix", "quix", "RocksDB, changelog", share=0.05),
    _peer("Faust, Table", "faust", "plain_faust", "memory, changelog", share=0.02),
)  # fmt: skip


def entries(only: list[str] | None) -> tuple[Entry, ...]:
    """All, or those whose names are given; the ceiling always, since ratios are to it.

    Raises ValueError, naming whom there is, for a name that nobody has.
    """
    names = [entry.name for entry in ENTRIES]
    unknown = [name for name in only or () if name not in names]
    if unknown:
        raise ValueError(f"no contestant {unknown[0]!r}; there are: {'; '.join(names)}")
    return tuple(one for one in ENTRIES if not only or one.name in {*only, CEILING})
