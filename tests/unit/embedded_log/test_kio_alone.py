"""The log starts without Hypothesis, though it is installed, and leaves nothing where it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

WAS_IMPORTED = "import sys; print('hypothesis' in sys.modules)"
LATER = "import hypothesis.strategies; print(hypothesis.strategies.integers())"


@pytest.mark.parametrize(
    ("imported", "is_imported"),
    [("kio.static.primitive", "True"), ("pipeline.embedded.log.broker", "False")],
)
def test_kio_imports_hypothesis_unless_it_is_kept_out(
    imported: str, is_imported: str, tmp_path: Path
) -> None:
    assert run(f"import {imported}; {WAS_IMPORTED}", tmp_path) == f"{is_imported}\n"
    assert (tmp_path / ".hypothesis").exists() is (is_imported == "True")


def test_who_wants_it_later_has_it(tmp_path: Path) -> None:
    assert run(f"import pipeline.embedded.log.broker; {LATER}", tmp_path) == "integers()\n"


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
