"""The loop of `--watch`: what it shows, what it survives, how it ends."""

import io
import sys
from collections.abc import Iterator

import pytest

from pipeline.ages import age
from pipeline.cli.board import PLAIN, BoardRow, Signs
from pipeline.cli.watch import Frame, frame_lines, signs_of, watch, with_seconds
from pipeline.errors import OperatorError, TryAgainError
from tests.kit.clocks import ManualClock

A, B = BoardRow("t:a", 2, ("2",)), BoardRow("t:b", 1, ("1",))


class Script:
    """Answers in turn; when they are over, Ctrl-C."""

    def __init__(self, *answers: Frame | Exception) -> None:
        self._answers: Iterator[Frame | Exception] = iter(answers)
        self.pauses_s: list[float] = []

    def ask(self) -> Frame:
        for answer in self._answers:
            if isinstance(answer, Exception):
                raise answer
            return answer
        raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        self.pauses_s.append(seconds)


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def frame(*rows: BoardRow, as_of_ms: int | None = 998_800) -> Frame:
    return Frame("t, all regions, last 1h", rows, as_of_ms)


def test_elsewhere_tables_follow_each_other_with_an_empty_line_between(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Script(frame(A, B), frame(B, A))
    watch(script.ask, 3, ManualClock(), script.pause)
    assert capsys.readouterr().out.splitlines() == [
        "t, all regions, last 1h, 1.2 s old",
        "1    t:a  2",
        "2    t:b  1",
        "",
        "t, all regions, last 1h, 1.2 s old",
        "1  ▲1  t:b  1",
        "2  ▼1  t:a  2",
    ]
    assert script.pauses_s == [3, 3]


def test_a_server_that_is_away_is_told_and_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script(TryAgainError("it is\naway"), frame(A), TryAgainError("again"), frame(A))
    watch(script.ask, 1, ManualClock(), script.pause)
    printed = capsys.readouterr()
    assert printed.err == "tally: it is away\ntally: again\n"
    assert printed.out.count("t:a") == 2
    assert len(script.pauses_s) == 4


def test_what_only_the_user_can_mend_ends_it() -> None:
    with pytest.raises(OperatorError):
        watch(Script(OperatorError("no such family")).ask, 1, ManualClock(), lambda _: None)


def test_on_a_terminal_the_last_table_stays_with_the_error_and_the_cursor_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    script = Script(frame(A), TryAgainError("ClickHouse is away"))
    watch(script.ask, 1, ManualClock(), script.pause)
    first, _, last = terminal.getvalue().partition("ClickHouse is away")
    assert first.count("t:a") == 2
    assert first.rindex("t:a") < first.rindex("! ")
    assert "\x1b[?25l" in first
    assert last.rstrip().endswith("\x1b[?25h")


def test_a_frame_has_its_age_and_its_notes_and_fits() -> None:
    shown = Frame("t, all regions, last 1h", (A,), 1_000, ("not complete: see\x1b tally status",))
    assert frame_lines(None, shown, 2_250, 22) == [
        "t, all regions, last …",
        "1    t:a  2  █████████"[:22],
        "not complete: see\\x1b…",
    ]
    assert frame_lines(None, frame(A, as_of_ms=None), 0, None)[0] == "t, all regions, last 1h"


@pytest.mark.parametrize(
    ("age_ms", "said"),
    [(-5, "0.0 s"), (1_249, "1.2 s"), (119_900, "119.9 s"), (180_000, "3 min"), (10**7, "3 h")],
)
def test_an_age_is_said_as_people_do(age_ms: int, said: str) -> None:
    assert age(age_ms) == said


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["tags", "--watch"], ["tags", "--watch", "2"]),
        (["--watch", "tags"], ["--watch", "2", "tags"]),
        (["tags", "--watch", "0.5", "-k", "3"], ["tags", "--watch", "0.5", "-k", "3"]),
        (["tags", "--watch", "-k", "3"], ["tags", "--watch", "2", "-k", "3"]),
        (["tags", "--watch=5"], ["tags", "--watch=5"]),
        (["--", "--watch"], ["--", "--watch"]),
        (["tags"], ["tags"]),
    ],
)
def test_watch_may_be_given_without_seconds(given: list[str], read: list[str]) -> None:
    assert with_seconds(given) == read


def test_signs_go_by_what_the_encoding_has() -> None:
    assert signs_of("utf-8") == Signs()
    assert signs_of("ascii") == PLAIN
