"""A family where a counter is asked for is told so, instead of a count of 0; and the other way."""

import pytest

from pipeline.cli import run


@pytest.mark.parametrize("command", ["count", "explain", "unique", "rank", "history"])
def test_a_family_is_no_counter(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "likes"]) == 2
    said = "'likes' has no key: write family:key; `tally top likes` is about the family"
    assert said in capsys.readouterr().err


def test_each_of_several_counters_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["unique", "likes:a", "views"]) == 2
    assert "'views' has no key" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["top", "trending"])
def test_a_counter_is_no_family(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "likes:a"]) == 2
    assert "is it 'likes'?" in capsys.readouterr().err
