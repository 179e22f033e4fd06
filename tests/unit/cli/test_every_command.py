"""What holds for every command: examples, --json, exit codes, colours, completion."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import run
from pipeline.reference.commands import walk
from tests.kit.command_lines import lines_shown, parse

TALLY = (sys.executable, "-m", "pipeline.cli")
COMMANDS = dict(walk())
NAMES = [" ".join(words) for words in COMMANDS]
BOTH = pytest.mark.parametrize(("words", "command"), COMMANDS.items(), ids=NAMES)

WITHOUT_JSON = {
    # They run until they are stopped, and what they print is how their parts do.
    ("demo",),
    ("up",),
    ("worker",),
    ("serve",),
}

# The least that a command must be given to get as far as its servers; nothing for all others.
LEAST: dict[tuple[str, ...], tuple[str, ...]] = {
    ("produce",): ("{file}",),
    ("count",): ("likes:a",),
    ("unique",): ("likes:a",),
    ("top",): ("likes",),
    ("rank",): ("likes:a",),
    ("trending",): ("likes",),
    ("explain",): ("likes:a",),
    ("adjust",): ("likes:a", "--by", "1", "--why", "a test", "--who", "a test"),
    ("reset",): ("likes:a", "--why", "a test", "--who", "a test"),
    ("history",): ("likes:a",),
    ("exchange",): ("--new-identity",),
    ("backup",): ("{file}", "--data", "{file}"),
    ("restore",): ("{file}",),
    ("token", "add"): ("somebody", "--read", "likes"),
    ("token", "revoke"): ("somebody",),
    ("up",): ("--data", "{file}/data"),
    ("demo",): ("--data", "{file}/data"),
}

# These have nothing that could fail but their output: they get a disk that is full.
NEEDS_NOTHING = {("schema",), ("advise",)}


@BOTH
def test_the_help_has_an_example_that_can_be_run(words: tuple[str, ...], command: Any) -> None:
    said = re.search(r"^Example: (.*)\Z", command.help, re.MULTILINE | re.DOTALL)
    assert said, f"the docstring of tally {' '.join(words)} ends with `Example: ...`"
    examples = re.findall(r"`([^`]+)`", said[1])
    assert examples
    for example in examples:
        found = list(lines_shown(f"    $ {example}\n"))
        assert found, f"{example} runs no tally"
        assert tuple(found[0][: len(words)]) == words
        parse(found[0])


@BOTH
def test_what_prints_data_prints_it_as_json(words: tuple[str, ...], command: Any) -> None:
    options = {name for each in command.params for name in each.opts}
    assert ("--json" in options) is (words not in WITHOUT_JSON)


@BOTH
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--no-such-option"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    own_help = re.escape(f"(see tally {' '.join(words)} --help)")
    assert re.fullmatch(rf"tally: .*--no-such-option.*{own_help}\n", printed.err)


@BOTH
def test_the_help_shows_no_value_for_what_takes_none(
    words: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "<bool>" not in shown


@BOTH
def test_an_error_is_one_line_and_exit_code_1(
    words: tuple[str, ...],
    command: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"counter": "likes:a"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TALLY_DEBUG", "0")
    monkeypatch.setenv("TALLY_KAFKA", "no port")
    monkeypatch.setenv("TALLY_CLICKHOUSE", "no address")
    monkeypatch.delenv("TALLY_TOKENS", raising=False)
    arguments = [part.format(file=file) for part in LEAST.get(words, ())]
    if words in NEEDS_NOTHING:
        with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            code = run([*words, *arguments])
    else:
        code = run([*words, *arguments])
    printed = capsys.readouterr()
    assert code == 1, f"{printed.err}: does LEAST have what tally {' '.join(words)} needs?"
    assert printed.out == ""
    assert re.fullmatch(r"tally: [^\n]+\n", printed.err)
    assert "internal error" not in printed.err


def in_a_terminal(arguments: Sequence[str], **environment: str) -> str:
    """What the command writes to a terminal of its own."""
    outer, inner = pty.openpty()
    try:
        with subprocess.Popen(
            [*TALLY, *arguments], stdout=inner, stderr=inner, env=env(environment)
        ):
            os.close(inner)
            written = b""
            while True:
                try:
                    block = os.read(outer, 65536)
                except OSError:  # Linux says so when the other end was closed.
                    break
                if not block:
                    break
                written += block
    finally:
        os.close(outer)
    return written.decode()


def env(more: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "100", **more}


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def test_help_is_coloured_on_a_terminal_and_plain_elsewhere() -> None:
    assert COLOUR.search(in_a_terminal(["count", "--help"]))
    assert not COLOUR.search(in_a_terminal(["count", "--help"], NO_COLOR="1"))
    piped = subprocess.run(
        [*TALLY, "count", "--help"], capture_output=True, text=True, env=env({}), check=True
    )
    assert "\x1b" not in piped.stdout


def completed(line: str) -> list[str]:
    """What bash is told when TAB is pressed at the end of the line."""
    words = line.split(" ")
    asked = {
        "_TALLY_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [*TALLY], capture_output=True, text=True, env=env(asked), check=True, timeout=60
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("tally co", ["count"]),
        ("tally re", ["replay", "reset", "restore"]),
        ("tally token ", ["add", "list", "revoke"]),
        ("tally count --by", ["--by"]),
        ("tally count --mode ", ["cached", "exact", "live"]),
    ],
)
def test_completion_proposes_commands_options_and_values(line: str, proposed: list[str]) -> None:
    assert sorted(completed(line)) == proposed


def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TALLY, "--install-completion", "bash"],
        capture_output=True,
        text=True,
        env=env({"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}),
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    installed = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("_TALLY_COMPLETE=complete_bash" in file.read_text() for file in installed)
