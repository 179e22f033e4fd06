"""Commands that ask about exact families start without numpy and pyarrow, which take long to load.

One process asks all of them; there is no ClickHouse, which they find out after their imports.
"""

import subprocess
import sys

import pytest

QUESTIONS = ("count", "explain", "history", "rank", "unique", "top")
PROGRAM = """\
import sys
sys.modules["numpy"] = sys.modules["pyarrow"] = None
from pipeline.cli import run
for command in sys.argv[1:]:
    run([command, "likes" if command == "top" else "likes:a"])
"""


def test_questions_import_neither_numpy_nor_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_CLICKHOUSE", "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *QUESTIONS],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == len(QUESTIONS)
    for line in lines:
        assert line.startswith("tally: ClickHouse at http://127.0.0.1:9 does not answer"), line
