"""Cells that were set aside: read back, and what they raise sums to."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec.structs import replace as changed

from pipeline.letters.rows import RowId, SetAsideCell, SumKey, read_row
from pipeline.letters.summed import is_whole, raised_sums
from pipeline.letters.sums import GRAINS, Sums
from pipeline.writes.set_aside import cell_letters

WINDOW, SLOT = datetime(2026, 3, 31, 23, 59, tzinfo=UTC), datetime(2026, 4, 1, 0, 2, tzinfo=UTC)
ROW = {
    "build": 2,
    "counter": "likes:é",
    "region": "eu",
    "window": WINDOW,
    "slot": SLOT,
    "replica": "main~1",
    "shard": 4,
    "p": 9,
    "n": 2,
    "duplicates": 1,
    "through": 17,
}
CELL = SetAsideCell(**ROW)  # type: ignore[arg-type]  # of many types
WINDOW_S = 1_775_001_540
ID = RowId(("likes:é",), "eu", "main~1", 4, WINDOW_S, 1_775_001_720)
KEYS = {
    "1h": SumKey(("likes:é",), "eu", "main~1", 4, 1_774_998_000, date(2026, 4, 1)),
    "1d": SumKey(("likes:é",), "eu", "main~1", 4, 1_774_915_200, date(2026, 4, 1)),
    "life": SumKey(("likes:é",), "eu", "main~1", 4, 0, date(2026, 4, 1)),
}
NONE = Sums({grain: {} for grain in GRAINS}, {grain: {} for grain in GRAINS}, {})


def rolled(**values: tuple[int, int, int]) -> dict[Any, Any]:
    return {grain: {KEYS[grain]: values[grain]} if grain in values else {} for grain in GRAINS}


def test_a_cell_is_read_back_as_it_was_set_aside() -> None:
    [letter] = cell_letters([ROW], ["because"])
    assert read_row(letter.value) == CELL


def test_cells_of_two_builds_have_letters_of_their_own() -> None:
    [first], [second] = cell_letters([ROW], [""]), cell_letters([{**ROW, "build": 3}], [""])
    assert first.row != second.row


@pytest.mark.parametrize(
    "broken",
    [
        {"p": -1},
        {"p": 2**63},
        {"slot": "yesterday"},
        {"window": 5},
        {"counter": None},
        {"shard": "4"},
        {"table": "tally.builds"},
        {"table": ["tally.cells_1m"]},
    ],
)
def test_what_is_no_cell_is_told(broken: dict[str, Any]) -> None:
    [letter] = cell_letters([ROW], [""])
    assert read_row(json.dumps({**json.loads(letter.value), **broken}).encode()) is None
    assert read_row(b"nonsense") is None
    assert read_row(b"[1]") is None


def test_a_cell_belongs_in_its_windows_hour_and_day_by_the_day_of_its_slot() -> None:
    assert CELL.id == ID
    assert {grain: CELL.sum_key(grain) for grain in GRAINS} == KEYS


def test_sums_are_raised_by_what_the_table_does_not_have_of_the_cell_yet() -> None:
    added = rolled(**{"1h": (10, 5, 0), "1d": (20, 5, 0), "life": (30, 5, 0)})
    before = replace(NONE, added=added, minutes={ID: (4, 3, 0)})
    # p from 4 to 9, n stays at 3, which is more than the letter's; duplicates from 0 to 1.
    assert raised_sums([CELL], before) == {
        "1h": {KEYS["1h"]: (15, 5, 1)},
        "1d": {KEYS["1d"]: (25, 5, 1)},
        "life": {KEYS["life"]: (35, 5, 1)},
    }


def test_one_cell_at_several_times_counts_once_and_several_cells_add_up() -> None:
    older = changed(CELL, p=3, n=1)
    other = changed(CELL, p=100, window=datetime(2026, 3, 31, 23, 58, tzinfo=UTC))
    raised = raised_sums([CELL, older, other, CELL], NONE)
    assert raised["1h"] == {KEYS["1h"]: (109, 4, 2)}
    assert list(raised) == ["1h", "1d", "life"], "totals never before the days they are of"


def test_a_cell_is_whole_unless_a_sum_is_greater_than_what_it_is_made_of() -> None:
    assert is_whole(CELL, NONE)
    for grain in GRAINS:
        same = {**NONE.added, **rolled(**{grain: (5, 5, 0)})}
        assert is_whole(CELL, replace(NONE, rolled=same, added=same))
        less = {**same, **rolled(**{grain: (5, 4, 0)})}
        assert not is_whole(CELL, replace(NONE, rolled=same, added=less)), grain
