"""Dead letters: one of each place in the log that must be refused, with its bytes. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.kit.truth.differences import Difference
from tests.kit.truth.record import Record, Refusable

SAMPLE_BYTES_MAX = 500
"""So much of a letter stands in ClickHouse; its topic has all of it."""


class LetterPlace(NamedTuple):
    """Where in the log a letter's record is, and its time there."""

    partition: int
    offset: int
    row: int
    log_ms: int


class Letter(NamedTuple):
    """What is told of a refused record: its bytes, perhaps their beginning, and how many."""

    value: bytes
    bytes_total: int
    reason: str


def refused_in_log(
    record: Record, logged: Mapping[LetterPlace, bytes]
) -> tuple[dict[LetterPlace, Refusable], list[str]]:
    """What must have a letter, by its place, and what is wrong with the log itself.

    What nobody heard of is refused exactly if the log has it. What it has and nobody sent must
    have a letter as well, of which no reason is known.
    """
    sent = {one.text.encode(): one for one in [*record.refused, *record.perhaps_refused]}
    times, wrong = Counter(logged.values()), []
    for one in record.refused:
        if times[one.text.encode()] != 1:
            found = times[one.text.encode()]
            wrong.append(f"the log has {found} times what must be refused once: {one.text}")
    for one in record.perhaps_refused:
        if times[one.text.encode()] > 1:
            found = times[one.text.encode()]
            wrong.append(f"the log has {found} times what was sent once: {one.text}")
    wrong += [f"the log has what nobody sent: {value!r}" for value in times.keys() - sent.keys()]
    unknown = {
        place: Refusable(value.decode(errors="replace"), "") for place, value in logged.items()
    }
    return {place: sent.get(logged[place], one) for place, one in unknown.items()}, wrong


def in_table(
    wanted: Mapping[LetterPlace, Refusable], found: Iterable[tuple[LetterPlace, Letter]]
) -> Iterator[Difference]:
    """Letters of ClickHouse, which has one of each place, and how it begins."""
    where, letters = "clickhouse dead_letters", list(found)
    for place, count in Counter(place for place, _ in letters).items():
        if count > 1:
            yield Difference("letter", where, place, 1, count)
    yield from _compared(where, wanted, letters, SAMPLE_BYTES_MAX)


def in_topic(
    wanted: Mapping[LetterPlace, Refusable], found: Iterable[tuple[LetterPlace, Letter]]
) -> Iterator[Difference]:
    """Letters of their topic, which has all bytes, and of a place perhaps more than one letter."""
    yield from _compared("topic of dead letters", wanted, found, None)


def _compared(
    where: str,
    wanted: Mapping[LetterPlace, Refusable],
    found: Iterable[tuple[LetterPlace, Letter]],
    bytes_max: int | None,
) -> Iterator[Difference]:
    seen = set()
    for place, letter in found:
        seen.add(place)
        one = wanted.get(place)
        if one is None or not _is_of(one, letter, bytes_max):
            yield Difference("letter", where, place, one, letter)
    for place in sorted(wanted.keys() - seen):
        yield Difference("letter", where, place, wanted[place], None)


def _is_of(one: Refusable, letter: Letter, bytes_max: int | None) -> bool:
    value = one.text.encode()
    kept = value if bytes_max is None else as_text(value[:bytes_max])
    return (letter.value, letter.bytes_total) == (kept, len(value)) and one.why in letter.reason


def as_text(beginning: bytes) -> bytes:
    """As a table has it: a character that was cut is no text."""
    return beginning.decode(errors="replace").encode()
