"""The README's commands and programs, as written, against a running Tally: it cannot drift."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.past import hashtags_go_on, tally_with_past
from tests.kit.readme import Step, agrees, steps
from tests.kit.tally import RunningTally

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text()
PATIENCE_S = 200
"""A hashtag is new in the first minute of its burst and rising in the second, as the page shows."""
PROGRAMS = ("kcat", "curl", "bash")

pytestmark = pytest.mark.timeout(900)


def test_every_step_of_the_readme_shows_what_the_readme_shows(tmp_path: Path) -> None:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    found = list(steps(PAGE))
    assert len([step for step in found if step.kind == "console"]) >= 11
    assert len([step for step in found if step.kind == "python"]) >= 2
    with tally_with_past(tmp_path) as tally:
        environment = surroundings(tmp_path, tally)
        with hashtags_go_on(tally):
            for step in filter(is_of_trends, found):
                take(step, tally, environment, tmp_path)
        for step in (one for one in found if not is_of_trends(one)):
            take(step, tally, environment, tmp_path)


def is_of_trends(step: Step) -> bool:
    """Whether it needs a stream that goes on: what trends is over two minutes later."""
    return "trending" in step.text


def surroundings(folder: Path, tally: RunningTally) -> dict[str, str]:
    """As a reader's: `tally` is in the PATH, and addresses are the defaults, or these."""
    command = folder / "bin" / "tally"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **tally.env, "PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def take(step: Step, tally: RunningTally, environment: Mapping[str, str], folder: Path) -> None:
    """Run it until it shows what it should: counts are visible about a second later.

    What writes is run once, or it would count twice.
    """
    text = step.text
    for port, address in (
        ("127.0.0.1:19092", tally.kafka),
        ("127.0.0.1:18123", tally.clickhouse.removeprefix("http://")),
        ("127.0.0.1:8321", tally.metrics["web"]),
    ):
        text = text.replace(port, address)
    argv = ["bash", "-c", f"set -o pipefail; {text}"]
    if step.kind == "python":
        argv = [sys.executable, "-c", text]
    writes = re.search(r"produce|kcat|POST|adjust|replay|increment", text)
    deadline_s = time.monotonic() + (0 if writes else PATIENCE_S)
    while True:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            cwd=folder,
        )
        if done.returncode == 0 and agrees(step, done.stdout):
            return
        if time.monotonic() >= deadline_s:
            break
        time.sleep(1)
    pytest.fail(f"{step.text}\nshould show:\n{step.shown}\nshows:\n{done.stdout}{done.stderr}")


def test_the_targets_of_make_that_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?m)(?:^|`)make ([a-z-]+)", PAGE)):
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_every_link_leads_to_a_file() -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE):
        assert (ROOT / link).exists(), link


def test_it_is_short_enough_to_be_read() -> None:
    assert len(PAGE.splitlines()) <= 210
