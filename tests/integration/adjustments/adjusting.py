"""A running Tally, its counters of one family, and ways to adjust and to read them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from pipeline.reads.spans import window_text
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import Done, RunningTally

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SIZES_MS = {"1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}
TOPIC = "tally.increments"


@dataclass(frozen=True)
class Adjusting:
    """What a test does; `family` is its own."""

    tally: RunningTally
    folder: Path
    broker: EmbeddedLog
    family: str = "any"

    def counter(self, name: str = "a") -> str:
        return f"{self.family}:{name}"

    def now_ms(self) -> int:
        return int(self.tally.rows("SELECT toUnixTimestamp64Milli(now64(3))")[0][0])

    def count(self, *events: Mapping[str, object]) -> None:
        """Count events, of counter `a` unless they say otherwise, and wait until answers do."""
        lines = [json.dumps({"counter": self.counter(), **event}) for event in events]
        receipt = self.tally.json("produce", "-", stdin="\n".join(lines) + "\n")["receipt"]
        self.tally.run("count", self.counter(), "--after", receipt, "--wait", "30")

    def adjust(self, *arguments: str, name: str = "a", code: int = 0) -> Any:
        """Adjust a counter, wait until answers have it, and return what is told."""
        options = ("--why", "a test", "--wait", *arguments)
        return self.tally.json("adjust", self.counter(name), *options, code=code)

    def run_file(self, lines: list[dict[str, object]], *options: str, code: int = 0) -> Done:
        path = self.folder / f"{self.family}.ndjson"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.tally.run(
            "adjust", "--file", str(path), "--why", "a batch", *options, code=code
        )

    def send(self, value: object) -> None:
        """A record with the header of adjustments, as a foreign program may write it."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer = Producer({"bootstrap.servers": self.tally.kafka, "log_level": 0})
        producer.produce(TOPIC, data, partition=0, headers={"tally-kind": "adjustment"})
        assert producer.flush(20) == 0

    def total(self, name: str = "a") -> int | None:
        """By the view; None if it has no row."""
        rows = self.tally.rows(
            f"SELECT toInt64(net) FROM tally.totals WHERE counter = '{self.counter(name)}'"
        )
        return rows[0][0] if rows else None

    def windows(self, grain: str, name: str = "a") -> dict[int, int]:
        """By the view, and by `tally count`, which must agree on what is not zero."""
        rows = self.tally.rows(
            f"SELECT toUnixTimestamp(window), toInt64(count) FROM tally.counts_{grain} "
            f"WHERE counter = '{self.counter(name)}'"
        )
        found = {at_s * 1000: count for at_s, count in rows}
        told = self.tally.json("count", self.counter(name), "--by", grain)["windows"]
        assert {row["window"]: row["count"] for row in told} == {
            window_text(at_ms): count for at_ms, count in found.items()
        }
        return found

    def wait_for_total(self, expected: int, name: str = "a") -> None:
        query = f"SELECT toInt64(net) FROM tally.totals WHERE counter = '{self.counter(name)}'"
        self.tally.wait_for(query, [(expected,)])
