"""What is copied and let go of, by the numbers of blocks."""

import pytest

from pipeline.exchange import plan
from pipeline.exchange.plan import NOTHING, Copy, Part, Place
from pipeline.exchange.tables import TABLES

MINUTES = Place("cells_1m", "2026-11-10")
HOURS = Place("cells_1h", "2026-11-10")


def part(place: Place, block: int, rows: int = 10, size: int = 100) -> Part:
    return Part(place, f"1-{place.day}", block, rows, size)


def copy(place: Place, above: int, block: int, shares: int = 1) -> Copy:
    return Copy(place, f"1-{place.day}", above, block, shares)


def test_what_was_never_copied_is_copied_from_its_first_block_on() -> None:
    assert plan.to_copy([part(MINUTES, 3), part(MINUTES, 9)], {}) == [copy(MINUTES, NOTHING, 9)]


def test_only_what_is_above_the_last_block_is_copied() -> None:
    assert plan.to_copy([part(MINUTES, 3), part(MINUTES, 9)], {MINUTES: 3}) == [copy(MINUTES, 3, 9)]
    assert plan.to_copy([part(MINUTES, 9)], {MINUTES: 9}) == []


def test_numbers_that_went_back_have_everything_copied() -> None:
    assert plan.to_copy([part(MINUTES, 4)], {MINUTES: 9}) == [copy(MINUTES, NOTHING, 4)]


def test_coarser_tables_come_first() -> None:
    found = plan.to_copy([part(MINUTES, 1), part(HOURS, 1)], {})
    assert [one.place for one in found] == [HOURS, MINUTES]
    grains = [table.name.rpartition("_")[2] for table in TABLES if table.name.startswith("cells")]
    assert grains == ["life", "1d", "1h", "1m"]


@pytest.mark.parametrize(
    ("rows", "size", "shares"),
    [
        (plan.ROWS_MAX, plan.BYTES_MAX, 1),
        (plan.ROWS_MAX + 1, 0, 2),
        (3, 4 * plan.BYTES_MAX, 4),
        (0, 0, 1),
    ],
)
def test_shares_are_bounded_by_rows_and_by_bytes(rows: int, size: int, shares: int) -> None:
    old = part(MINUTES, 1, 100 * plan.ROWS_MAX, 100 * plan.BYTES_MAX)
    found = plan.to_copy([old, part(MINUTES, 2, rows, size)], {MINUTES: 1})
    assert found == [copy(MINUTES, 1, 2, shares)]


def test_places_that_differ_are_copied_whole_and_others_not_at_all() -> None:
    parts = [part(MINUTES, 7), part(HOURS, 8)]
    assert plan.whole(parts, [HOURS]) == [copy(HOURS, NOTHING, 8)]


def test_what_is_here_alone_has_gone_there_unless_it_has_no_day() -> None:
    here = [MINUTES, HOURS, Place("cells_life", ""), Place("newest_windows", "")]
    assert plan.gone([HOURS], here) == [MINUTES]
