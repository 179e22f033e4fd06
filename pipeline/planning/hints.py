"""Hints: somebody knows of a counter's load before it comes, such as a celebrity's post."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.shard_plan import read_plan
from pipeline.errors import BadInputError, OperatorError
from pipeline.planning.needed import shards_for
from pipeline.planning.plan import HINT_PREFIX, Hint
from schemas.events import check_event
from schemas.rules import SHARDS_MAX
from schemas.settings import load_settings

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

DAY_MS = 86_400_000
HINTS_MAX = 1_000
"""How many may hold at once: all producers read them all."""

_FOR_MS_MAX = 366 * DAY_MS


@dataclass(frozen=True, slots=True)
class Hinted:
    """What a hint came to: `shards` is what producers use now, of `partitions` there are."""

    counter: str
    hint: Hint
    shards: int
    partitions: int

    @property
    def is_capped(self) -> bool:
        """Whether there are fewer partitions than the hint asks for."""
        return self.hint.n > self.partitions

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {
            "counter": self.counter,
            "hint": msgspec.structs.asdict(self.hint),
            "shards": self.shards,
            "partitions": self.partitions,
            "capped": self.is_capped,
        }


def hint(
    kafka: KafkaAddress,
    counter: str,
    *,
    n: int | None = None,
    expect: float | None = None,
    for_ms: int = DAY_MS,
    rate_max: float | None = None,
    clock: Clock | None = None,
) -> Hinted:
    """Ask for at least `n` shards, or for as many as `expect` rows a second need.

    It holds until it is over or cleared, and replaces the counter's last one. Producers follow
    within seconds. `rate_max` is what one shard may have; TALLY_SHARD_RATE_MAX if left out. Blocks;
    raises BadInputError for what is no counter or no number, OperatorError where there is no log
    yet or there are too many hints, TryAgainError when Kafka is away.
    """
    check_event({"counter": counter})
    wanted = _wanted(n, expect, rate_max)
    if not 0 < for_ms <= _FOR_MS_MAX:
        raise BadInputError("a hint holds for at least a millisecond and at most 366 days")
    clock = clock or SystemClock()
    partitions = topics.made_partitions(kafka)
    records, now_ms = read_plan(kafka), clock.now_ms()
    if len(records.live_hints(now_ms).keys() - {counter}) >= HINTS_MAX:
        raise OperatorError(f"{HINTS_MAX} hints hold already: clear one with tally shard --clear")
    asked = Hint(wanted, now_ms + for_ms, "n" if expect is None else "expect")
    _write(kafka, counter, msgspec.json.encode(asked), clock)
    records.hints[counter] = asked
    shards = records.plan(partitions, partitions, now_ms).shards_of(counter)
    return Hinted(counter, asked, shards, partitions)


def clear(kafka: KafkaAddress, counter: str, clock: Clock | None = None) -> bool:
    """Take a counter's hint back; whether there was one that held. Blocks; raises as `hint`."""
    check_event({"counter": counter})
    clock = clock or SystemClock()
    records = read_plan(kafka)
    if counter not in records.hints:
        return False
    _write(kafka, counter, None, clock)
    return counter in records.live_hints(clock.now_ms())


def _wanted(n: int | None, expect: float | None, rate_max: float | None) -> int:
    if (n is None) == (expect is None):
        raise BadInputError("a hint is either a number of shards or an expected rate")
    if n is not None:
        if not 1 <= n <= SHARDS_MAX:
            raise BadInputError(f"a counter has 1 to {SHARDS_MAX} shards")
        return n
    rate = expect or 0.0
    if not (isfinite(rate) and rate > 0):
        raise BadInputError("an expected rate is a number of rows a second above 0")
    return shards_for(rate, rate_max or load_settings().shard_rate_max)


def _write(kafka: KafkaAddress, counter: str, value: bytes | None, clock: Clock) -> None:
    record = LogRecord(topics.SHARD_PLAN, 0, value, HINT_PREFIX + counter.encode())
    write_records(kafka, [record], clock)
