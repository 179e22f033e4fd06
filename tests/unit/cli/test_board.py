"""A ranking as lines: places and their changes, names of strangers, bars that fit."""

import pytest
from rich.cells import cell_len

from pipeline.cli.board import PLAIN, BoardRow, board_lines, fit


def row(name: str, count: int) -> BoardRow:
    return BoardRow(name, count, (f"{count:,}",))


def test_changes_are_told_from_the_places_before() -> None:
    before = [row("t:a", 9), row("t:b", 8), row("t:c", 7)]
    now = [row("t:c", 12), row("t:a", 10), row("t:d", 9), row("t:b", 8)]
    assert board_lines(before, now, None) == [
        "1   ▲2  t:c  12",
        "2   ▼1  t:a  10",
        "3  new  t:d   9",
        "4   ▼2  t:b   8",
    ]


def test_a_place_that_stayed_has_no_mark_and_the_first_time_nothing_is_new() -> None:
    now = [row("t:a", 9), row("t:b", 8)]
    assert board_lines(now, now, None) == ["1    t:a  9", "2    t:b  8"]
    assert board_lines(None, now, None) == ["1    t:a  9", "2    t:b  8"]
    assert all("new" in line for line in board_lines([], now, None))


def test_a_place_that_is_told_is_taken_instead_of_that_among_the_rows() -> None:
    before = [BoardRow("t:a", 9, ("9",), place=4)]
    now = [BoardRow("t:a", 9, ("9",), place=3), BoardRow("t:b", 8, ("8",), place=12)]
    assert board_lines(before, now, None) == [" 3   ▲1  t:a  9", "12  new  t:b  8"]


def test_nothing_to_rank_is_no_line() -> None:
    assert board_lines(None, [], 80) == []
    assert board_lines([row("t:a", 1)], [], None) == []


def test_bars_are_as_long_as_the_counts_and_the_least_is_seen() -> None:
    lines = board_lines(None, [row("t:a", 1000), row("t:b", 500), row("t:c", 1)], 60)
    bars = [line.count("█") for line in lines]
    assert bars == [40, 20, 1]
    assert [line.index("█") for line in lines] == [lines[0].index("█")] * 3


def test_without_a_width_there_is_no_bar_and_no_name_is_cut() -> None:
    [line] = board_lines(None, [row("t:" + "x" * 300, 5)], None)
    assert "x" * 300 in line
    assert "█" not in line


@pytest.mark.parametrize("width", [30, 40, 55, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    names = ["t:" + "猫" * 100, "t:a", "t:\x1b[2J" * 10, "t:" + "é" * 70, "t:👩‍👩‍👧" * 9]
    now = [row(name, 10**6 - at) for at, name in enumerate(names)]
    for before in (None, [], now[::-1]):
        lines = board_lines(before, now, width)
        assert max(map(cell_len, lines)) <= width
        assert all("\x1b" not in line for line in lines)
        # Counts stand below each other, whatever the names are made of.
        ends = {cell_len(line[: line.index("999,")]) for line in lines[1:]}
        assert len(ends) == 1


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("likes:a", 7, "likes:a"),
        ("likes:ab", 7, "likes:…"),
        ("t:猫猫猫", 8, "t:猫猫猫"),
        ("t:猫猫猫", 7, "t:猫猫…"),
        ("t:猫猫猫", 6, "t:猫…"),
        ("t:\n\n", 6, "t:\\n\\n"),
        ("t:\n\nx", 6, "t:\\n…"),
        ("t:\u202eabc", 8, "t:…"),
    ],
)
def test_a_name_is_cut_by_cells_and_never_inside_a_character_or_an_escape(
    text: str, cells: int, shown: str
) -> None:
    assert fit(text, cells) == shown


def test_a_terminal_without_unicode_has_signs_of_its_own() -> None:
    lines = board_lines([row("t:b", 1), row("t:a", 1)], [row("t:a", 2), row("t:b", 1)], 40, PLAIN)
    assert all(line.isascii() for line in lines)
    assert "+1" in lines[0]
    assert "-1" in lines[1]


def test_figures_of_several_columns_end_in_line() -> None:
    now = [BoardRow("t:a", 5, ("1,000", "±7")), BoardRow("t:b", 4, ("9", "±12"))]
    assert board_lines(None, now, None) == ["1    t:a  1,000   ±7", "2    t:b      9  ±12"]
