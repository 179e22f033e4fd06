"""`tally advise`: options, defaults where nobody can answer, one JSON document, wrong usage."""

import json
import sys
import tomllib
from io import StringIO

import pytest

from pipeline.cli import run


class Terminal(StringIO):
    """Answers of somebody at a terminal."""

    def isatty(self) -> bool:
        return True


def test_json_has_answers_reasons_costs_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", "likes", "--need", "who-is-in", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["family"] == "likes"
    assert document["answers"]["taken-back"] == "yes"
    assert tomllib.loads(document["settings"])["families"]["likes"]["once_per"] == "member"
    assert document["reasons"]
    assert all(set(cost) == {"cost", "source"} for cost in document["costs"])


def test_nobody_at_a_terminal_takes_the_first_choices_and_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert run(["advise", "views", "--need", "how-often"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("views: exact")
    assert "[families.views]" in printed
    assert "taken for granted: retries" in printed


def test_at_a_terminal_it_asks_by_number_or_by_name_until_it_is_a_choice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("9\n3\nany-period\n"))
    assert run(["advise", "api"]) == 0
    printed = capsys.readouterr().out
    assert "What must the number tell?" in printed
    assert "expected 1 to 3" in printed
    assert 'window = "sliding"' in printed
    assert "taken for granted" not in printed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--need", "everything"], "--need: expected how-often or"),
        (["--need", "never-over", "--trends", "yes"], "--trends does not matter"),
        (["likes:post-42"], "without ':'"),
    ],
)
def test_wrong_usage_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advise", "--json", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert printed.err.count("\n") == 1
