"""The rules a shard begins with are what the log says, whenever one looks and however it is cut."""

import numpy as np
import pytest

from pipeline import first_rules
from pipeline.errors import TryAgainError
from pipeline.fetches import Fetch
from pipeline.first_rules import rules_at_start
from pipeline.rules import CountingRules, FamilyRules
from schemas.records import Headers, Records

RULES_KIND: Headers = (("tally-kind", b"rules"),)
EVENT = (b'{"counter":"likes:a"}', ())
OURS, OTHERS, DEFAULTS = CountingRules(5, FamilyRules(1_000)), CountingRules(4), CountingRules()

LogRecord = tuple[bytes, Headers]


def rules(wanted: CountingRules) -> LogRecord:
    return wanted.bytes, RULES_KIND


class OnePartition:
    """A partition that is read so many records at a time and can be written to."""

    def __init__(self, *records: LogRecord, at_a_time: int = 2) -> None:
        self.records = list(records)
        self.written: list[bytes] = []
        self.at_a_time = at_a_time
        self.loses_writes = False
        self.asked = 0

    async def read_ahead(self, partition: int, offset: int) -> Fetch | None:
        found = self.records[offset : offset + self.at_a_time]
        if not found:
            return None
        end = offset + len(found)
        values: list[bytes | None] = [value for value, _ in found]
        records = Records(
            partition,
            np.arange(offset, end),
            np.zeros(len(found), np.int64),
            [None] * len(found),
            values,
            [headers for _, headers in found],
        )
        return Fetch(offset, end, records)

    async def append_control_to(self, topic: str, partition: int, kind: str, value: bytes) -> None:
        assert (topic, partition, kind) == ("tally.increments", 3, "rules")
        self.written.append(value)
        if not self.loses_writes:
            self.records.append((value, RULES_KIND))


async def first(
    log: OnePartition, known: CountingRules = DEFAULTS, start: int = 0
) -> CountingRules:
    async def asked() -> CountingRules:
        log.asked += 1
        return known

    return await rules_at_start(3, start, asked, log=log, control=log)


@pytest.mark.parametrize("at_a_time", [1, 2, 100])
async def test_the_first_rules_record_holds_and_nothing_is_written(at_a_time: int) -> None:
    records = [EVENT, EVENT, EVENT, rules(OURS), rules(OTHERS)]
    log = OnePartition(*records, at_a_time=at_a_time)
    assert await first(log, OTHERS) == OURS
    assert log.written == []
    assert log.asked == 0


async def test_rules_that_cannot_be_read_are_passed_over() -> None:
    log = OnePartition((b"nonsense", RULES_KIND), EVENT, rules(OURS))
    assert await first(log) == OURS


async def test_what_is_before_the_start_does_not_matter() -> None:
    assert await first(OnePartition(rules(OTHERS), EVENT, rules(OURS)), start=1) == OURS


@pytest.mark.parametrize("known", [OURS, DEFAULTS])
async def test_where_the_log_ends_too_soon_the_known_rules_are_written(
    known: CountingRules,
) -> None:
    log = OnePartition(EVENT, EVENT)
    assert await first(log, known) == known
    assert log.written == [known.bytes]
    # Whoever looks later, with whatever knowledge, finds the same.
    assert await first(log, OTHERS) == known
    assert log.written == [known.bytes]


class Overtaken(OnePartition):
    """Somebody else always writes a moment before."""

    async def append_control_to(self, topic: str, partition: int, kind: str, value: bytes) -> None:
        self.records.append(rules(OTHERS))
        await super().append_control_to(topic, partition, kind, value)


async def test_what_somebody_wrote_a_moment_before_is_first_for_both() -> None:
    assert await first(Overtaken(EVENT), OURS) == OTHERS


async def test_rules_that_were_written_but_cannot_be_read_yet_are_waited_for_by_trying_again() -> (
    None
):
    log = OnePartition(EVENT)
    log.loses_writes = True
    with pytest.raises(TryAgainError, match="partition 3"):
        await first(log)


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
async def test_past_the_bound_of_offsets_the_defaults_hold(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(first_rules, "OFFSETS_MAX", 4)
    inside = OnePartition(*[EVENT] * 3, rules(OURS), at_a_time=at_a_time)
    outside = OnePartition(*[EVENT] * 4, rules(OURS), at_a_time=at_a_time)
    assert (await first(inside), await first(outside, OURS)) == (OURS, DEFAULTS)
    assert inside.written == outside.written == []


@pytest.mark.parametrize("at_a_time", [1, 2, 100])
async def test_past_the_bound_of_bytes_the_defaults_hold(at_a_time: int) -> None:
    half = (b"x" * (first_rules.BYTES_MAX // 2), ())
    inside = OnePartition(half, half, rules(OURS), at_a_time=at_a_time)
    outside = OnePartition(half, half, EVENT, rules(OURS), at_a_time=at_a_time)
    assert (await first(inside), await first(outside, OURS)) == (OURS, DEFAULTS)
    assert inside.written == outside.written == []
