"""The file of inputs: complete, each figure with its command, mistakes told in one line."""

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks._scale_inputs import INPUTS, InputsError, load_inputs, parse_inputs

TEXT = INPUTS.read_text()


def test_every_measured_figure_names_a_benchmark_that_there_is() -> None:
    measured = load_inputs().measured
    folder = Path(benchmarks.__path__[0])
    for name in measured.__struct_fields__:
        found = re.match(r"python -m benchmarks\.(\w+)", getattr(measured, name).command)
        assert found, name
        assert (folder / f"{found.group(1)}.py").exists(), name


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("[measured.skew]", "[measured.screw]", "screw"),
        ("value = 92.0", "value = 0", "> 0.0"),
        ("value = 92.0", 'value = "92"', "log_bytes_json"),
        ('why = "the default"\n', "", "why"),
        ("[assumed.exponent]", "[assumed.exponent", "line"),
    ],
)
def test_a_mistake_is_told_in_one_line(before: str, after: str, reason: str) -> None:
    assert before in TEXT
    with pytest.raises(InputsError, match=re.escape(reason)) as raised:
        parse_inputs(TEXT.replace(before, after, 1))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputsError, match="cannot be read"):
        load_inputs(tmp_path / "none.toml")
