"""Medians, ratios and spreads, the table, the page and the plot out of given turns."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks._kit import Outcome
from benchmarks._pages import written
from benchmarks.race.arena import Arena
from benchmarks.race.contestants import CEILING, ENTRIES, ROOT, Entry
from benchmarks.race.figures import Race, figures_of, table
from benchmarks.race.goals import GOALS, doubts, reached
from benchmarks.race.page import BEGIN, END, write
from benchmarks.race.turns import Racer, Turn
from benchmarks.race.usage import Cost


def racer(name: str, seconds: list[float], own_s: float = 1.0) -> Racer:
    """One that took such turns of a million events."""
    found = Racer(Entry(name, (), "somewhere"), Arena(Path(), 1_000_000))
    cost = Cost(own_s, {"broker": 0.5, "ClickHouse": 0.25}, 300.0, {"broker": 9.0, "ClickHouse": 7})
    for second in seconds:
        turn = Turn(500_000, second, cost)
        found.turns.append(turn)
        outcome = Outcome(turn.events, turn.seconds)
        found.contestant.run = lambda outcome=outcome: outcome  # type: ignore[misc]
        found.contestant.take_turn()
    return found


def raced(*racers: Racer) -> Race:
    figures = tuple(figures_of(one, racers[0]) for one in racers)
    return Race("a broker", 1_000_000, 10, 4, 92.0, 3, 1, 0.5, 1.5, figures)


CEILING_RACER = racer(CEILING, [1.0, 2.0, 4.0])
OTHER = racer("Tally, JSON", [2.0, 2.0, 5.0])
RACE = raced(CEILING_RACER, OTHER)


def test_figures_are_medians_and_ratios_are_within_rounds() -> None:
    ceiling, other = RACE.figures
    assert (ceiling.per_s, ceiling.ratio) == (250_000, 1.0)
    assert other.per_s == 250_000
    assert other.ratio == pytest.approx(0.8)  # 0.5, 1.0 and 0.8 of the ceiling
    assert other.spread == pytest.approx((250_000 - 100_000) / 250_000)


def test_processors_are_per_million_events_and_stores_are_told_from_the_broker() -> None:
    one = RACE.figures[1]
    assert (one.own_s, one.store_s, one.broker_s) == (2.0, 0.5, 1.0)
    assert (one.own_mb, one.store_mb) == (300.0, 7)


def test_the_table_has_a_line_for_everybody() -> None:
    lines = table(RACE).splitlines()
    assert " ".join(lines[-1].split()) == "Tally, JSON 250,000 0.800 60% 2.00 0.50 1.00 300 7"
    assert len(lines) == 3 + len(RACE.figures)


def test_goals_are_those_whose_contestants_took_part() -> None:
    [(goal, times)] = reached(RACE)
    assert goal == GOALS[0]
    assert times == pytest.approx(0.8)


def test_who_passes_the_ceiling_with_the_same_messages_makes_it_doubtful() -> None:
    quick, frames = racer("quick", [0.5, 1.0, 2.0]), racer("frames", [0.1, 0.1, 0.1])
    found = raced(CEILING_RACER, OTHER, quick, frames)
    [line] = doubts(found, {CEILING, "Tally, JSON", "quick"})
    assert line.startswith("doubtful: quick was 2.00 times as quick as the ceiling")


def test_goals_name_contestants_that_there_are() -> None:
    names = {entry.name for entry in ENTRIES}
    assert {name for goal in GOALS for name in (goal.ours, goal.other)} <= names


def test_page_plot_and_figures_are_written(tmp_path: Path) -> None:
    (tmp_path / "race.md").write_text(f"# before\n{BEGIN}\nold\n{END}\nafter\n")
    write(RACE, ["somebody is skipped: no such thing"], tmp_path)
    page = (tmp_path / "race.md").read_text()
    assert page.startswith("# before\n")
    assert page.endswith(f"{END}\nafter\n")
    assert "old" not in page
    assert "somebody is skipped: no such thing." in page
    assert "| 1 x | 0.8 x | missed |" in page
    document = json.loads((tmp_path / "race.json").read_text())
    assert document["contestants"]["Tally, JSON"]["ratio_to_ceiling"] == 0.8
    svg = (tmp_path / "race.svg").read_text()
    assert ET.fromstring(svg).tag.endswith("svg")
    assert all(one.name in svg for one in RACE.figures)


def test_a_page_without_markers_is_left_alone() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        written("no markers", BEGIN, END, "measured")


def test_the_page_in_docs_has_the_markers() -> None:
    page = (ROOT / "docs/benchmarks/race.md").read_text()
    assert page.count(BEGIN) == page.count(END) == 1


def test_a_contestant_whose_program_is_missing_says_how_to_get_it() -> None:
    here = Entry("here", (), "", needs=(ROOT / "Makefile", "sh"), how="never said")
    away = dataclasses.replace(here, name="away", needs=("no-such-program",), how="run `make it`")
    gone = dataclasses.replace(here, name="gone", needs=(ROOT / "no/file",), how="run `make it`")
    assert here.missing() is None
    assert away.missing() == "away is skipped: no no-such-program; run `make it`"
    assert gone.missing() == "gone is skipped: no no/file; run `make it`"
