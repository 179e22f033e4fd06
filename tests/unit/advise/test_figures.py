"""What advice says of costs is what the docs have measured; renew both together."""

import re
import tomllib
from pathlib import Path

import pytest

from pipeline.advise import figures
from pipeline.advise.figures import Figure

ROOT = Path(__file__).parents[3]
FIGURES = {name: value for name, value in vars(figures).items() if isinstance(value, Figure)}
INPUTS = tomllib.loads((ROOT / "docs/benchmarks/scale_inputs.toml").read_text())["measured"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_source_is_a_page(name: str) -> None:
    for page in FIGURES[name].source.split(", "):
        assert (ROOT / page).is_file()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (figures.CELL_MEMORY_BYTES, "cell_memory"),
        (figures.CELL_DISK_BYTES, "cell_bytes_1m"),
        (figures.WORKER_JSON_S, "worker_json"),
        (figures.WORKER_FRAMES_S, "worker_frames"),
        (figures.FLUSH_CELLS_S, "flush_cells"),
        (figures.FLUSH_MEMBERS_S, "flush_members"),
        (figures.STRICT_PER_S, "strict"),
    ],
)
def test_a_measured_figure_is_the_one_that_scale_goes_by(value: float, name: str) -> None:
    assert value == INPUTS[name]["value"]


@pytest.mark.parametrize(
    ("figure", "quoted"),
    [
        (figures.SKETCHES, ["8 160"]),
        (figures.IDS, ["310 bytes"]),
        (figures.UNIQUES, ["4 096"]),
        (figures.MEMBERS_EXACT, ["52 bytes", "24 bytes"]),
        (figures.MEMBERS_FILTER, ["11 bytes", "8 bytes"]),
    ],
)
def test_a_quoted_figure_is_on_its_page(figure: Figure, quoted: list[str]) -> None:
    pages = [(ROOT / page).read_text() for page in figure.source.split(", ")]
    for text in quoted:
        assert text in figure.text
        assert any(re.search(rf"\b{text}\b", page) for page in pages)
