"""Runs a notebook's cells as a kernel would, and keeps what they show in the file.

    python -m tests.kit.notebooks        # runs all of them on a Tally of its own, and saves them

A cell shows what it prints, the value of a last expression, and the figures it drew.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib as mpl
import matplotlib.pyplot as plt

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def run_notebook(path: Path, *, save: bool = False) -> dict[str, Any]:
    """Run the code cells in order and return the names they leave. Raises what a cell raises.

    With `save`, the file has what its cells showed from now on.
    """
    mpl.use("Agg")
    document = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in document["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        cell["outputs"] = _run_cell("".join(cell["source"]), f"{path.name}[{number}]", names)
    if save:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return names


def _run_cell(source: str, place: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, place, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(text)})
    for figure in [plt.figure(number) for number in plt.get_fignums()]:
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=80, bbox_inches="tight")
        data = {"image/png": base64.b64encode(drawn.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    # As in Jupyter, a semicolon at the end asks for silence.
    if value is not None and not source.rstrip().endswith(";"):
        shown = {"text/plain": _lines(repr(value))}
        outputs.append(
            {
                "output_type": "execute_result",
                "data": shown,
                "metadata": {},
                "execution_count": None,
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    from tests.kit.past import tally_with_past

    with tempfile.TemporaryDirectory() as folder, tally_with_past(Path(folder)) as tally:
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            sys.stderr.write(f"{path.name}\n")
            with patch.dict(os.environ, tally.env):
                run_notebook(path, save=True)


if __name__ == "__main__":
    main()
