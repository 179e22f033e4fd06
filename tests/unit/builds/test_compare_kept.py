"""What retention may have taken from builds."""

from datetime import UTC, date, datetime

import pytest

from pipeline.builds.comparing.kept import ALL, NONE, Kept, gone, gone_of, parse_set, unite
from pipeline.rollup.retention import FamilySet, Finished
from schemas.families import Families, parse_families

DAY, MONTH = date(2026, 3, 2), date(2026, 1, 1)
FINAL: frozenset[tuple[Finished, date]] = frozenset(
    {("1d", DAY), ("1d", date(2026, 3, 8)), ("life", MONTH)}
)
SHORT = parse_families('[families.short]\nretention = { "1m" = "2d", "1d" = "20d" }')
FOREVER = parse_families('[default]\nretention = { "1m" = "forever", "1h" = "forever" }')


def ms(year: int, month: int, day: int) -> int:
    return round(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


def only(*names: str) -> FamilySet:
    return FamilySet(names)


def all_but(*names: str) -> FamilySet:
    return FamilySet(names, all_but=True)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (only("a"), only("b", "a"), only("a", "b")),
        (all_but("a", "b"), only("b", "c"), all_but("a")),
        (only("b", "c"), all_but("a", "b"), all_but("a")),
        (all_but("a", "b"), all_but("b", "c"), all_but("b")),
        (NONE, only("a"), only("a")),
        (ALL, only("a"), ALL),
    ],
)
def test_families_of_either_set(one: FamilySet, other: FamilySet, both: FamilySet) -> None:
    assert unite(one, other) == both


@pytest.mark.parametrize("families", [only("a", "it's"), all_but("b"), NONE, ALL])
def test_a_set_is_read_as_it_was_written(families: FamilySet) -> None:
    assert parse_set(families.text()) == families


def test_what_cannot_be_read_may_be_anything() -> None:
    assert parse_set("only [") == ALL
    assert parse_set("families") == ALL


def test_what_is_past_its_retention_in_one_build_may_be_gone() -> None:
    behind, ahead = Kept(ms(2026, 3, 4), FINAL), Kept(ms(2026, 3, 5), FINAL)
    found = gone([behind, ahead], [SHORT])
    assert gone_of(found, "1m", DAY) == only("short")
    assert gone_of(found, "1h", DAY) == NONE
    assert gone_of(found, "1m", date(2026, 3, 8)) == NONE
    assert gone_of(found, "1d", date(2026, 1, 31)) == only("short")
    assert gone([behind], [SHORT]).keys() == {("1d", MONTH)}


def test_a_day_that_is_not_rolled_up_for_good_is_kept() -> None:
    assert gone([Kept(ms(2026, 9, 1))], [SHORT]) == {}


def test_a_retention_that_held_before_may_have_taken_something() -> None:
    late = Kept(ms(2026, 3, 20), FINAL)
    assert gone_of(gone([late], [FOREVER]), "1m", DAY) == NONE
    assert gone_of(gone([late], [FOREVER, Families()]), "1m", DAY) == ALL


def test_what_was_told_to_be_deleted_is_gone_whatever_retention_says() -> None:
    told = Kept(0, deleted=frozenset({("1m", DAY, only("a").text())}))
    assert gone([told], [FOREVER]) == {("1m", DAY): only("a")}
