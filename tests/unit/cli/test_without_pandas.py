"""A process of the command line leaves pandas aside, though pyarrow would import it."""

import subprocess
import sys

import pytest

MAKES_AN_ARRAY = "import sys, pyarrow; pyarrow.array(['a']); print('pandas' in sys.modules)"
WITHOUT = "from pipeline.cli.without_pandas import do_without_pandas; do_without_pandas()"


@pytest.mark.parametrize(("before", "is_imported"), [("pass", "True"), (WITHOUT, "False")])
def test_pyarrow_imports_pandas_unless_it_is_kept_out(before: str, is_imported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{before}; {MAKES_AN_ARRAY}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{is_imported}\n", "")
