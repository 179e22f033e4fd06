"""A log that cannot open its data says so in one line, and ends."""

import subprocess
import sys
from pathlib import Path


def test_a_log_whose_data_cannot_be_opened_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "meta.sqlite").mkdir()
    command = [sys.executable, "-m", "pipeline.embedded.log", "--port", "0", "--data"]
    done = subprocess.run(
        [*command, tmp_path], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"cannot open the log in {tmp_path}: unable to open database file; is there room on the "
        "disk, and may this user write there?\n"
    )
