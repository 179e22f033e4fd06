"""The frame around commands: errors in one line, exit codes, tracebacks only when asked for."""

import os
from collections.abc import Callable

import pytest
import typer

from pipeline import __version__
from pipeline.cli import run
from pipeline.errors import BadInputError, OperatorError, TryAgainError


@pytest.fixture(autouse=True)
def no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that the undoing also removes what `run` itself sets.
    monkeypatch.setenv("TALLY_DEBUG", "0")


def app_that(act: Callable[[], None]) -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)

    @app.command("act")
    def command(number: int = 1) -> None:
        act()

    return app


def raising(error: BaseException) -> typer.Typer:
    def act() -> None:
        raise error

    return app_that(act)


@pytest.mark.parametrize("kind", [TryAgainError, BadInputError, OperatorError])
def test_an_expected_error_is_its_own_line_on_stderr(
    kind: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["act"], raising(kind("the log is away:\n start it with tally up"))) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "tally: the log is away: start it with tally up\n"


def test_a_bug_is_one_line_that_names_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["act"], raising(ValueError("first\nsecond"))) == 1
    error = capsys.readouterr().err
    assert error == (
        "tally: internal error: ValueError: first second; "
        "run again with --debug for the traceback\n"
    )


@pytest.mark.parametrize("arguments", [["--debug", "act"], ["act", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, raising(ValueError("broken"))) == 1
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert "run again" not in error
    assert error.endswith("tally: internal error: ValueError: broken\n")


def test_the_environment_can_ask_for_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_DEBUG", "1")
    assert run(["act"], raising(OperatorError("no"))) == 1
    assert "Traceback" in capsys.readouterr().err


def test_debug_reaches_the_processes_that_are_started() -> None:
    seen: list[str] = []
    run(["act", "--debug"], app_that(lambda: seen.append(os.environ["TALLY_DEBUG"])))
    assert seen == ["1"]


def test_debug_after_two_dashes_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["act", "--", "--debug"], raising(ValueError("not reached"))) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "own_help"),
    [
        (["nothing"], "tally --help"),
        (["act", "--colour"], "tally act --help"),
        (["act", "--number", "many"], "tally act --help"),
        (["act", "extra"], "tally act --help"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_help_of_its_command_and_exit_code_2(
    arguments: list[str], own_help: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, app_that(lambda: None)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tally: ")
    assert printed.err.endswith(f"(see {own_help})\n")
    assert printed.err.count("\n") == 1


def test_an_interrupt_is_quiet_and_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["act"], raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_a_command_chooses_its_exit_code() -> None:
    assert run(["act"], raising(typer.Exit(3))) == 3
    assert run(["act"], app_that(lambda: None)) == 0


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tally {__version__}\n"


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Usage: tally" in capsys.readouterr().out
