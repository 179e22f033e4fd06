"""Sends dead letters again, each to its old partition, naming its place so that it counts once.

Only the log decides what a retry counts: a worker counts it if the place it names was refused and
not retried before. What is remembered in ClickHouse is a convenience on top, written after Kafka
has confirmed; when that is lost, the same letter is sent once more and skipped by the workers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pipeline.dead_letters import TOPIC, VALUE_BYTES_MAX
from pipeline.decode import decode
from pipeline.lanes import CONTENT_TYPE_HEADER, RETRY_HEADER
from schemas.adjustments import ADJUSTMENT_REASON
from schemas.records import Headers, Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.letters.letter import LetterKey, StoredLetter
    from pipeline.letters.reads import ListedLetter
    from pipeline.letters.remembered import Remembered

CHUNK_LETTERS = 500
"""So many are sent, confirmed and remembered together."""

RETRIED = "retried before"
CUT = f"only the first {VALUE_BYTES_MAX:,} bytes were kept; give the event with --edited"
SET_ASIDE = "rows that ClickHouse refused, whose records were counted; insert them with --insert"
ADJUSTMENT = "adjustments, which are no events; set right what is wrong and run tally adjust again"
UNKNOWN = "no dead letters that match"
GONE = f"not in the topic {TOPIC} any more; give the event with --edited"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One letter as it goes to the log again."""

    key: LetterKey
    value: bytes
    content_type: bytes | None = None

    def headers(self) -> Headers:
        """Its place and log time and, for a frame, that it is one."""
        named = f"{self.key.offset}/{self.key.row}/{self.key.log_ms}".encode()
        retry = ((RETRY_HEADER, named),)
        if self.content_type is None:
            return retry
        return (*retry, (CONTENT_TYPE_HEADER, self.content_type))


@dataclass(frozen=True, slots=True)
class Plan:
    """The letters to send again, and how many others are left out, by reason."""

    keys: list[LetterKey]
    skipped: Counter[str]


@dataclass(slots=True)
class Outcome:
    """How many letters are in the log again, and how many are not, by reason."""

    sent: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def unsent(self) -> int:
        """How many should have been sent and were not."""
        return self.skipped.total() - self.skipped[RETRIED]


class Letters(Protocol):
    """Where letters' bytes are."""

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        """Each wanted letter that is there, once."""
        ...


class RetrySender(Protocol):
    """What puts attempts into the log."""

    def send(self, attempts: Sequence[Attempt]) -> Mapping[LetterKey, str]:
        """Block until each is confirmed or given up; why, for those that are not."""
        ...


class RetryMemory(Protocol):
    """What remembers which letters are in the log again."""

    def record_retries(self, keys: Sequence[LetterKey], retried_at_ms: int) -> None:
        """Return when it is stored."""
        ...


def plan(
    letters: Sequence[ListedLetter],
    edited: Mapping[str, bytes] | None = None,
) -> Plan:
    """Which of the letters, newest first, can be sent. Pure.

    With `edited`, only the letters whose places it names are meant.
    """
    skipped: Counter[str] = Counter()
    keys = []
    unmet = None if edited is None else set(edited)
    for letter in letters:
        if unmet is not None:
            # The newest one is meant, should there be another from a log that was made anew.
            if letter.key.place not in unmet:
                continue
            unmet.discard(letter.key.place)
        if letter.retried:
            skipped[RETRIED] += 1
        elif letter.key.is_set_aside:
            skipped[SET_ASIDE] += 1
        elif letter.reason.startswith(ADJUSTMENT_REASON):
            skipped[ADJUSTMENT] += 1
        else:
            keys.append(letter.key)
    if unmet:
        skipped[UNKNOWN] = len(unmet)
    return Plan(keys, skipped)


def leave_out_forgotten(planned: Plan, memory: Mapping[int, Remembered]) -> Plan:
    """The plan without the letters that workers would skip. Pure.

    `memory` has what the shards of all planned letters remember.
    """
    reasons = [memory[key.shard].why_not(key) for key in planned.keys]
    keys = [key for key, why in zip(planned.keys, reasons, strict=True) if why is None]
    return Plan(keys, planned.skipped + Counter(why for why in reasons if why is not None))


def retry(
    planned: Plan,
    edited: Mapping[str, bytes] | None,
    *,
    letters: Letters,
    sender: RetrySender,
    memory: RetryMemory,
    clock: Clock,
) -> Outcome:
    """Send what is planned, with the value that was edited where there is one. Blocks.

    Raises TryAgainError when a server is away; what was sent until then is remembered.
    """
    outcome = Outcome(skipped=Counter(planned.skipped))
    found = _attempts(planned.keys, edited or {}, letters, outcome.skipped)
    while chunk := list(islice(found, CHUNK_LETTERS)):
        refusals = still_refused(chunk)
        outcome.skipped.update(f"would be refused again: {why}" for why in refusals.values())
        sound = [attempt for attempt in chunk if attempt.key not in refusals]
        failures = sender.send(sound) if sound else {}
        outcome.skipped.update(f"Kafka did not confirm: {why}" for why in failures.values())
        confirmed = [attempt.key for attempt in sound if attempt.key not in failures]
        if confirmed:
            memory.record_retries(confirmed, clock.now_ms())
        outcome.sent += len(confirmed)
    return outcome


def still_refused(attempts: Sequence[Attempt]) -> dict[LetterKey, str]:
    """Of which attempts the decoder would count nothing, and why. Pure.

    Sent all the same they would only become other dead letters. That one is too late is for log
    time and the rules to say, so it is not known here.
    """
    # Their numbers stand in for offsets, since the decoder asks for one partition in log order.
    decoded = decode(
        Records(
            partition=0,
            offsets=np.arange(len(attempts), dtype=np.int64),
            timestamps_ms=np.array([attempt.key.log_ms for attempt in attempts], np.int64),
            keys=[None] * len(attempts),
            values=[attempt.value for attempt in attempts],
            headers=[attempt.headers() for attempt in attempts],
        )
    )
    counted = set(decoded.columns["offset"].to_pylist())
    reasons = {bad.offset: bad.reason for bad in reversed(decoded.refused)}
    return {
        attempts[number].key: reason for number, reason in reasons.items() if number not in counted
    }


def _attempts(
    keys: Sequence[LetterKey],
    edited: Mapping[str, bytes],
    letters: Letters,
    skipped: Counter[str],
) -> Iterator[Attempt]:
    yield from (Attempt(key, edited[key.place]) for key in keys if key.place in edited)
    missing = {key for key in keys if key.place not in edited}
    for letter in letters.find(missing):
        missing.discard(letter.key)
        if letter.is_cut:
            skipped[CUT] += 1
        else:
            yield Attempt(letter.key, letter.value, letter.content_type)
    if missing:
        skipped[GONE] += len(missing)
