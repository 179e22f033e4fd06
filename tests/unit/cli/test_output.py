"""What is printed where: JSON alone on stdout, colours on terminals only, closed pipes quietly."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.cli import build_app, run
from pipeline.cli.output import console, print_error, print_json, stdout_is_gone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# These are called inside tests, not fixtures: pytest replaces sys.stdout between the two.
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


@contextmanager
def closed_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stdout whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        yield


def test_json_is_one_document_in_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"counter": "hashtag:#кот", "total": 2**70, "windows": [{"count": -1}], "as": None}
    print_json(document)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert printed.count("\n") == 1
    assert json.loads(printed) == document


@pytest.mark.parametrize("document", [{"count": float("nan")}, {"at": object()}])
def test_what_json_cannot_say_is_refused_before_anything_is_printed(
    document: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        print_json(document)
    assert capsys.readouterr().out == ""


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    console().print("healthy", style="green")
    assert "\x1b[32m" in terminal.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    console().print("healthy", style="green")
    assert terminal.getvalue() == "healthy\n"


def test_a_pipe_gets_no_colours_and_no_broken_lines(capsys: pytest.CaptureFixture[str]) -> None:
    line = "likes:[bold]post " * 40
    console().print(line, style="green")
    assert capsys.readouterr().out == f"{line}\n"


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("first\n  second")
    assert capsys.readouterr() == ("", "tally: first second\n")


def test_a_closed_pipe_is_noticed_and_then_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    with closed_pipe(monkeypatch):
        sys.stdout.write("text")
        assert stdout_is_gone()
        sys.stdout.flush()


def test_a_command_into_a_closed_pipe_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = build_app()

    @app.command("print-much")
    def print_much() -> None:
        for _ in range(10_000):
            console().print("a line of some length")

    with closed_pipe(monkeypatch):
        assert run(["print-much"], app) == 1
    assert capsys.readouterr().err == ""


def test_a_broken_connection_is_not_taken_for_a_closed_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = build_app()

    @app.command("ask")
    def ask() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    assert run(["ask"], app) == 1
    assert capsys.readouterr().err == "tally: a server closed its connection: try again\n"


def test_a_full_disk_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("/dev/full is Linux's own")
    with full.open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        sys.stdout.write("text")
        assert stdout_is_gone()
    assert capsys.readouterr().err == "tally: cannot write the output: No space left on device\n"
