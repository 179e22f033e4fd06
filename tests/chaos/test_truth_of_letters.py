"""The truth checker on dead letters: each that is missing, other or too many is told of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.workload import LONG, Workload, refusables
from tests.kit.truth.letters import (
    SAMPLE_BYTES_MAX,
    Letter,
    LetterPlace,
    as_text,
    in_table,
    in_topic,
    refused_in_log,
)
from tests.kit.truth.record import Journal, Record, Refusable

NOW_MS = 1_794_000_000_000
ONE, LONG_ONE = Refusable("{}", "counter: missing"), Refusable("é" * LONG + "!", "delta: 0")
LOGGED = {
    LetterPlace(2, 17, 0, NOW_MS): ONE.text.encode(),
    LetterPlace(3, 4, 0, NOW_MS + 1): LONG_ONE.text.encode(),
}
WANTED = dict(zip(LOGGED, (ONE, LONG_ONE), strict=True))
Letters = list[tuple[LetterPlace, Letter]]


def letters(beginning: int | None = None) -> Letters:
    """As they should be written: with all of their bytes, or as a table has them."""
    return [
        (
            place,
            Letter(as_text(value[:beginning]), len(value), f"{WANTED[place].why}, to be precise"),
        )
        for place, value in LOGGED.items()
    ]


def test_letters_with_their_places_bytes_and_reasons_are_true() -> None:
    assert len(LONG_ONE.text.encode()) > SAMPLE_BYTES_MAX
    assert list(in_table(WANTED, letters(SAMPLE_BYTES_MAX))) == []
    assert list(in_topic(WANTED, letters())) == []
    assert list(in_topic(WANTED, [*letters(), *letters()])) == [], "twice after a crash"


def with_letter(**change: Any) -> Callable[[Letters], Letters]:
    return lambda all_: [*all_[:1], (all_[1][0], all_[1][1]._replace(**change))]


def with_place(**change: int) -> Callable[[Letters], Letters]:
    return lambda all_: [*all_[:1], (all_[1][0]._replace(**change), all_[1][1])]


SPOILS: dict[str, tuple[Callable[[Letters], Letters], int]] = {
    "missing": (lambda all_: all_[:1], 1),
    "of another record": (with_letter(value=b"{}", bytes_total=2), 1),
    "of another length": (with_letter(bytes_total=LONG), 1),
    "of another reason": (with_letter(reason="not JSON"), 1),
    "in another partition": (with_place(partition=2), 2),
    "at another offset": (with_place(offset=5), 2),
    "in another row": (with_place(row=1), 2),
    "at another time": (with_place(log_ms=NOW_MS), 2),
    "of what was counted": (lambda all_: [*all_, (LetterPlace(2, 18, 0, NOW_MS), all_[0][1])], 1),
}


@pytest.mark.parametrize("spoilt", SPOILS)
def test_a_letter_that_is_missing_other_or_elsewhere_is_told(spoilt: str) -> None:
    spoil, differences = SPOILS[spoilt]
    for found in (
        in_table(WANTED, spoil(letters(SAMPLE_BYTES_MAX))),
        in_topic(WANTED, spoil(letters())),
    ):
        assert [one.kind for one in found] == ["letter"] * differences


def test_bytes_that_differ_late_are_told_where_they_are() -> None:
    """A hundred characters are alike; the table has five hundred bytes, the topic all."""
    place, whole = letters()[1]
    for at in (150, SAMPLE_BYTES_MAX + 100):
        value = whole.value[:at] + b"xx" + whole.value[at + 2 :]
        other = [letters()[0], (place, whole._replace(value=value))]
        assert [one.key for one in in_topic(WANTED, other)] == [place]
        kept = as_text(value[:SAMPLE_BYTES_MAX])
        shown = [letters(SAMPLE_BYTES_MAX)[0], (place, whole._replace(value=kept))]
        assert len(list(in_table(WANTED, shown))) == (at < SAMPLE_BYTES_MAX)


def test_two_letters_of_a_place_are_told_in_the_table() -> None:
    found = list(in_table(WANTED, [*letters(SAMPLE_BYTES_MAX), letters(SAMPLE_BYTES_MAX)[0]]))
    assert [(one.key, one.expected, one.found) for one in found] == [(next(iter(WANTED)), 1, 2)]


def test_what_nobody_heard_of_is_refused_exactly_if_the_log_has_it() -> None:
    sure, there, away = (Refusable(text, "why") for text in ("sure", "there", "away"))
    record = Record(refused=[sure], perhaps_refused=[there, away])
    first, second, third = (LetterPlace(0, offset, 0, NOW_MS) for offset in range(3))
    logged = {first: b"sure", second: b"there"}
    assert refused_in_log(record, logged) == ({first: sure, second: there}, [])
    for more, told in (
        ({third: b"there"}, "2 times what was sent once"),
        ({third: b"sure"}, "2 times what must be refused once"),
        ({third: b"made up"}, "what nobody sent"),
    ):
        wanted, [wrong] = refused_in_log(record, {**logged, **more})
        assert told in wrong
        assert list(wanted) == [first, second, third], "each of them has a letter"
    _, [wrong] = refused_in_log(record, {second: b"there"})
    assert "0 times what must be refused once" in wrong


def test_every_sort_of_what_must_be_refused_is_sent_short_and_long(tmp_path: Path) -> None:
    workload = Workload(1, "letters", 0, all_have_marks=True)
    journal = Journal(tmp_path / "journal")
    made = {number: workload.refusable(number, NOW_MS) for number in range(200)}
    for number, one in made.items():
        journal.send_refusable(number, one)
    journal.acknowledge([0])
    journal.close()
    record = Record.of([tmp_path / "journal"])
    assert record.refused == [made[0]]
    assert [*record.refused, *record.perhaps_refused] == list(made.values())
    assert {one.why for one in made.values()} == {why for _, why in refusables(NOW_MS)}
    sizes = [len(one.text.encode()) for one in made.values()]
    assert min(sizes) < SAMPLE_BYTES_MAX < max(sizes)
    assert len(set(made.values())) == len(made)
