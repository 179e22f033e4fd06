"""Where nobody answers, every command says so in one line, with what to do, and exits with 1."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.test_every_command import COMMANDS, LEAST, NEEDS_NOTHING

# Nobody listens on port 1, and one needs rights to.
AWAY = {"TALLY_KAFKA": "127.0.0.1:1", "TALLY_CLICKHOUSE": "http://127.0.0.1:1"}
OF_THEIR_OWN = {("up",), ("demo",), ("serve",), ("doctor",), ("worker",)} | NEEDS_NOTHING
"""They bring their servers, wait for them, or say which are away; their own tests have that."""

ALWAYS = {("count",), ("produce",)}
"""One for each server; the others take as long again, and are left to `make prove`."""

ASKING = [words for words in COMMANDS if words not in OF_THEIR_OWN and words[0] != "token"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=" ".join(words), marks=[] if words in ALWAYS else pytest.mark.prove)
        for words in ASKING
    ],
)
def test_a_server_that_is_away_is_one_line_and_exit_code_1(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"counter": "likes:a"}\n')
    arguments = [part.format(file=file) for part in LEAST.get(words, ())]
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *words, *arguments],
        cwd=tmp_path,
        env={**os.environ, **AWAY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert re.fullmatch(r"tally: [^\n]*is it up\?[^\n]*\n", done.stderr)
