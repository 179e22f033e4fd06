"""How far `tally verify --log` has read is told to somebody who looks, and to nobody else."""

import io
import sys
from collections.abc import Callable
from typing import NoReturn

import pytest

import pipeline.cli.verify
import pipeline.reconcile.verify
from pipeline.cli import run
from pipeline.errors import TryAgainError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Tell = Callable[[int, int], None] | None


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Tell]:
    """Whom the comparison would tell; it compares nothing here, as that takes servers."""
    found: list[Tell] = []

    def compare(*_: object, on_progress: Tell, **__: object) -> NoReturn:
        found.append(on_progress)
        raise TryAgainError("no servers here")

    monkeypatch.setattr(pipeline.reconcile.verify, "verify", compare)
    return found


def told(given: list[Tell], monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> str:
    """What stderr gets when half of the log is read."""
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(pipeline.cli.verify, "PROGRESS_EVERY_S", 0)
    assert run(["verify", "--log"]) == 1
    [tell] = given
    assert tell is not None, "without it, the log is not read at all"
    stderr.truncate(0)
    tell(5, 10)
    return stderr.getvalue()


def test_a_pipe_gets_no_progress(given: list[Tell], monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(given, monkeypatch, io.StringIO()) == ""


def test_a_terminal_gets_it(given: list[Tell], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "5 of about 10 records read" in told(given, monkeypatch, Terminal())


def test_without_log_the_log_is_not_read(given: list[Tell]) -> None:
    assert run(["verify"]) == 1
    assert given == [None]
