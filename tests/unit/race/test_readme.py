"""The README's figures are those of the last race that was published."""

import json

from benchmarks._pages import between
from benchmarks.race.readme import BEGIN, END, FIGURES, README, measured


def test_the_readme_has_the_figures_of_race_json() -> None:
    """Renew it with python -m benchmarks.race.readme."""
    assert between(README.read_text(), BEGIN, END) == measured(json.loads(FIGURES.read_text()))


def test_who_did_not_take_part_is_left_out() -> None:
    race = json.loads(FIGURES.read_text())
    del race["contestants"]["Redis INCR"]
    assert "Redis" not in measured(race)
    assert "Tally, JSON" in measured(race)
