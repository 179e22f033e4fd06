"""Single events, sent one after another beside a load, and when each was first seen."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from benchmarks._kit import WrongAnswerError
from benchmarks._servers import TOPIC
from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

PROBE_EVERY_S = 0.2
LOOK_EVERY_S = 0.05
SETTLE_S = 5.0
"""What is sent in the beginning is not measured: files and caches are touched there first."""

LAST_TIMEOUT_S = 60
CLOCKS_S = 60.0
"""Of the minutes that are asked for, so much before the first event that is not seen yet."""

# Of minutes that are new, so that looking stays as cheap as it was at the start.
SEEN = (
    "SELECT counter, toInt64(sum(count)) FROM tally.counts_1m "
    "WHERE counter >= 'probe:' AND counter < 'probe;' "
    "AND window >= toStartOfMinute(toDateTime({since_s:Int64}, 'UTC')) GROUP BY counter"
)


class Probes:
    """Single events, sent one after another, and when each was first seen."""

    def __init__(self, kafka: str, client: Client) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0, "log_level": 0})
        self._client = client
        self._sent_s: dict[str, float] = {}
        self._missing_s: dict[str, float] = {}
        """When those were sent, by the time of day, that were not seen yet. The oldest is first."""

        self.took_s: dict[str, float] = {}

    def send(self) -> None:
        """One more. The clock runs from the call of the producer on."""
        counter = f"probe:{len(self._sent_s)}"
        self._sent_s[counter] = time.monotonic()
        self._missing_s[counter] = time.time()
        value = json.dumps({"counter": counter}).encode()
        self._producer.produce(TOPIC, value, key=counter.encode())
        self._producer.poll(0)

    def look(self) -> bool:
        """Note what is visible by now; True when nothing is missing. A doubled count is wrong.

        Whoever counts may be behind by any time: asked for is all since the first that is missing.
        """
        oldest_s = min([time.time(), *self._missing_s.values()])
        since = {"since_s": int(oldest_s - CLOCKS_S)}
        for counter, count in self._client.query(SEEN, since).result_rows:
            if count != 1:
                raise WrongAnswerError(f"{counter} is {count} instead of 1")
            self.took_s.setdefault(counter, time.monotonic() - self._sent_s[counter])
            self._missing_s.pop(counter, None)
        return not self._missing_s

    def run(self, seconds: float, last_timeout_s: float = LAST_TIMEOUT_S) -> None:
        """Send and look, for so long, and then until all are seen. Blocks.

        Raises AssertionError where that takes longer than `last_timeout_s`.
        """
        began_s = next_s = time.monotonic()
        while (now_s := time.monotonic()) < began_s + seconds:
            if now_s >= next_s:
                self.send()
                next_s += PROBE_EVERY_S
            self.look()
            time.sleep(LOOK_EVERY_S)
        wait_until(self.look, "all probes are counted", timeout_s=last_timeout_s)

    def times_ms(self) -> list[float]:
        """Of those that were sent after the beginning had settled, in order of size."""
        first_s = min(self._sent_s.values()) + SETTLE_S
        return sorted(
            1000 * took_s for name, took_s in self.took_s.items() if self._sent_s[name] >= first_s
        )

    def taken_ms(self) -> list[tuple[float, float]]:
        """When each was sent, in seconds after the first, and how long until it was seen."""
        first_s = min(self._sent_s.values())
        return [(self._sent_s[name] - first_s, 1000 * took) for name, took in self.took_s.items()]
