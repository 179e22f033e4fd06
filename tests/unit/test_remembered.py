"""Which letters workers would count again, as their changelog tells it."""

from collections.abc import Iterable

import msgspec
import pytest

from pipeline.changelog import PositionValue, _encode, position_key, refused_keys
from pipeline.errors import OperatorError
from pipeline.letters import remembered as remembered_module
from pipeline.letters.letter import LetterKey
from pipeline.letters.remembered import (
    NOT_YET,
    OTHER_LOG,
    TOO_OLD,
    ChangelogPlaces,
    Remembered,
)
from pipeline.refused import WHOLE_RECORD, RefusedFact

AT_MS = 1_790_000_000_000


def key(offset: int, row: int = 0, log_ms: int = AT_MS) -> LetterKey:
    return LetterKey(3, offset, row, log_ms)


def position(
    offset: int, writer: int = 1, incarnation: int = 0, refused_from: tuple[int, int] | None = None
) -> tuple[bytes, bytes]:
    value = PositionValue(AT_MS, incarnation, b"", None, None, refused_from, "main")
    return position_key(offset, writer), _encode(value)


def refused(*facts: RefusedFact, incarnation: int = 0) -> list[tuple[bytes, bytes]]:
    return [(one, b"\x90") for one in refused_keys(facts, incarnation)]


def read(
    records: Iterable[tuple[bytes, bytes | None]], log_start: int = 0, log_end: int = 100
) -> Remembered:
    places = ChangelogPlaces()
    for one in records:
        places.add(*one)
    return places.remembered(log_start, log_end)


def test_a_place_that_the_shard_remembers_is_counted_and_any_other_is_of_another_log() -> None:
    facts = refused(RefusedFact(7, 0, AT_MS), RefusedFact(8, 2, AT_MS))
    found = read([*facts, position(50, refused_from=(7, 0))])
    assert found.why_not(key(7)) is None
    assert found.why_not(key(8, 2)) is None
    assert found.why_not(key(8, 1)) == OTHER_LOG
    assert found.why_not(key(7, log_ms=AT_MS + 1)) == OTHER_LOG, "the same place of another log"


def test_a_retried_place_may_be_sent_again_since_workers_know_it() -> None:
    facts = refused(RefusedFact(7, 0, AT_MS), RefusedFact(7, 0, AT_MS, retried_at=9))
    assert read([*facts, position(50, refused_from=(7, 0))]).why_not(key(7)) is None


def test_a_frame_that_could_not_be_read_is_known_by_its_whole_record() -> None:
    facts = refused(RefusedFact(7, WHOLE_RECORD, AT_MS))
    found = read([*facts, position(50, refused_from=(7, WHOLE_RECORD))])
    assert found.why_not(key(7)) is None
    assert found.why_not(key(7, 1)) == OTHER_LOG


def test_what_an_older_incarnation_refused_is_not_remembered() -> None:
    facts = refused(RefusedFact(7, 0, AT_MS))
    newer = refused(RefusedFact(9, 0, AT_MS), incarnation=1)
    old, new = position(50, writer=2, refused_from=(7, 0)), position(40, 0, 1, (9, 0))
    found = read([*facts, old, *newer, new])
    assert (found.why_not(key(7)), found.why_not(key(9))) == (OTHER_LOG, None)
    accepted = read([*facts, old, position(40, 0, 1)])
    assert accepted.why_not(key(7)) == OTHER_LOG, "just accepted: nothing is remembered yet"


def test_the_newest_writer_goes_first_and_tombstones_forget() -> None:
    facts = refused(RefusedFact(7, 0, AT_MS), RefusedFact(60, 0, AT_MS))
    zombie, owner = position(70, 1, refused_from=(7, 0)), position(50, 2, refused_from=(7, 0))
    found = read([*facts, owner, zombie])
    assert (found.position, found.why_not(key(60))) == (50, NOT_YET)
    assert read([*facts, owner, zombie, (owner[0], None)]).position == 70


def test_a_letter_past_the_last_checkpoint_is_waited_for_unless_the_log_ends_before_it() -> None:
    found = read([position(50)], log_end=60)
    assert found.is_open(key(50))
    assert found.why_not(key(59)) == NOT_YET
    assert not found.is_open(key(60))
    assert found.why_not(key(60)) == OTHER_LOG
    assert read([]).why_not(key(5)) == NOT_YET


@pytest.mark.parametrize(("log_start", "log_end"), [(0, 49), (51, 60)])
def test_a_log_without_the_position_is_not_the_one_that_was_counted(
    log_start: int, log_end: int
) -> None:
    facts = refused(RefusedFact(7, 0, AT_MS))
    records = [*facts, position(50, refused_from=(7, 0))]
    assert read(records, log_start, log_end).why_not(key(7)) == OTHER_LOG
    assert read(records, 50, 50).why_not(key(7)) is None, "the record is gone, its place is known"


def test_when_the_memory_is_full_older_letters_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_module, "PLACES_MAX", 2)
    facts = refused(*(RefusedFact(offset, 0, AT_MS) for offset in (5, 7, 9)))
    found = read([*facts, position(50, refused_from=(7, 0))])
    assert [found.why_not(key(offset)) for offset in (5, 7, 8)] == [TOO_OLD, None, OTHER_LOG]


def test_a_changelog_of_another_format_is_refused() -> None:
    with pytest.raises(OperatorError, match="format 1"):
        read([(_encode((1, "cell")), b"")])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"hello", b""),
        (b"", b""),
        (msgspec.msgpack.encode(5), b""),
        (msgspec.msgpack.encode([2, "position", "x", 1]), b""),
        (msgspec.msgpack.encode([2, "position", 5]), b"\xc1"),
        (msgspec.msgpack.encode([2, "refused", 0, 1]), b""),
    ],
)
def test_a_record_that_tally_never_writes_is_told_to_the_operator(key: bytes, value: bytes) -> None:
    def remember() -> None:
        places = ChangelogPlaces()
        places.add(key, value)
        places.remembered(0, 10)

    with pytest.raises(OperatorError, match="never writes"):
        remember()
