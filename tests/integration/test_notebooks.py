"""The notebooks run against a running Tally, cell by cell, and their numbers are right."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.notebooks import NOTEBOOKS, run_notebook
from tests.kit.past import hashtags_go_on, tally_with_past
from tests.kit.tally import RunningTally

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    with tally_with_past(tmp_path_factory.mktemp("notebooks")) as running:
        yield running


@pytest.fixture(autouse=True)
def at_this_tally(tally: RunningTally, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in tally.env.items():
        monkeypatch.setenv(name, value)


def test_first_counts_counts_what_it_produced(tally: RunningTally) -> None:
    names = run_notebook(NOTEBOOKS / "first_counts.ipynb")
    try:
        assert names["total"]() == 300
        assert sum(count for _, count in names["windows"]) == 300
        assert names["regions"] == {"eu": 200, "us": 100}
        assert tally.json("count", names["counter"])["total"] == 300
    finally:
        names["client"].close()


def test_the_tour_tells_what_tally_count_tells_and_the_replay_agrees(tally: RunningTally) -> None:
    with hashtags_go_on(tally):
        names = run_notebook(NOTEBOOKS / "tour.ipynb")
    made = int(names["views"].sum())
    found = [tally.json("count", names[one])["total"] for one in ("home", "docs")]
    assert sum(found) == made
    assert sum(names["counted"].values()) == made
    by_minute = tally.json("count", names["home"], "--by", "1m", "--last", "60m")["windows"]
    assert sum(window["count"] for window in by_minute) == found[0]
    for name, known in names["truth"].items():
        told = names["uniques"][name.partition(":")[2] or name]
        # Two standard errors, 95 %: the seed is fixed, so these either always hold or never.
        assert told["low"] <= known <= told["high"]
    assert names["trends"]
    assert all(row[0].startswith("hashtag:#breaking") for row in names["trends"])
    assert names["replay"]["check"]["differs"] is False
    assert names["replay"]["check"]["complete"]
    assert names["tables"]["cells_1m"]["compared"] > 50
    assert len(tally.json("builds")["builds"]) == 1


def test_choosing_a_strategy_measures_what_it_claims(tally: RunningTally) -> None:
    names = run_notebook(NOTEBOOKS / "choosing_a_strategy.ipynb")
    shares = list(names["busiest"].values())
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.2
    assert shares[-1] < 0.2
    for error, (_, measured) in names["distinct"].items():
        assert measured < 1.5 * error
    sizes = [size for size, _, _ in names["sketched"].values()]
    errors = [relative for _, _, relative in names["sketched"].values()]
    assert sizes == sorted(sizes)
    assert errors == sorted(errors, reverse=True)
    assert tally.json("count", names["first"])["total"] == names["totals"][names["first"]]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_is_saved_with_what_it_showed(path: Path) -> None:
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell["outputs"] for cell in cells)
    assert not [
        output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"
    ]
