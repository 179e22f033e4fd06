"""When what the other side let go of goes here."""

import pytest

from pipeline.exchange.plan import Place
from pipeline.exchange.removals import Noticed, Removal, due, families_of, of_partitions
from pipeline.rollup.retention import FamilySet

DAY = Removal("cells_1m", "2026-11-10", "", 7)


def test_a_removal_waits_from_when_it_was_noticed() -> None:
    noticed = {DAY: Noticed(1_000, done=False)}
    assert due([DAY], noticed, 1_499, 500) == []
    assert due([DAY], noticed, 1_500, 500) == [DAY]


def test_a_removal_that_is_new_is_noticed_now() -> None:
    assert due([DAY], {}, 1_000, 1) == []
    assert due([DAY], {}, 1_000, 0) == [DAY]


def test_what_was_done_is_not_done_again() -> None:
    assert due([DAY], {DAY: Noticed(0, done=True)}, 1_000, 0) == []


def test_a_day_that_came_again_is_another_removal() -> None:
    place = Place("cells_1m", "2026-11-10")
    assert of_partitions([place], {place: 7}) == [DAY]
    assert of_partitions([place], {place: 8}) != [DAY]


@pytest.mark.parametrize(
    "families",
    [FamilySet(("a", "it's")), FamilySet(("b",), all_but=True), FamilySet((), all_but=True)],
)
def test_families_are_read_as_they_were_written(families: FamilySet) -> None:
    assert families_of(families.text()) == families
