"""The notebooks run against a running Tally, cell by cell, and their numbers are right."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.tally import tally_up

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def run_cells(notebook: Path) -> dict[str, Any]:
    """Run the code cells in order, as a kernel would, and return the names they leave."""
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(notebook), "exec"), names)
    return names


def test_first_counts_counts_what_it_produced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tally_up(tmp_path) as tally:
        for name, value in tally.env.items():
            monkeypatch.setenv(name, value)
        names = run_cells(NOTEBOOKS / "first_counts.ipynb")
        try:
            assert names["total"]() == 300
            assert sum(count for _, count in names["windows"]) == 300
            assert names["regions"] == {"eu": 200, "us": 100}
            assert tally.json("count", names["counter"])["total"] == 300
        finally:
            names["client"].close()
