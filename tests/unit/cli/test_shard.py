"""`tally shard` used wrongly: said in one line, before any server is asked."""

import pytest

from pipeline.cli import run

HOT = "likes:hot"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--n", "2"], "name the counter"),
        (["--clear"], "name the counter"),
        ([HOT, "--n", "2", "--clear"], "exclude each other"),
        ([HOT, "--n", "2", "--expect", "5"], "exclude each other"),
        ([HOT, "--n", "0"], "--n"),
        ([HOT, "--n", "4097"], "--n"),
        ([HOT, "--for", "1h"], "--for goes with --n or --expect"),
        ([HOT, "--n", "2", "--for", "soon"], "expected a duration"),
    ],
)
def test_wrong_usage_is_told(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["shard", *arguments]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not printed.out


def test_what_is_no_counter_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--n", "2"], ["--clear"]):
        assert run(["shard", "nofamily", *more]) == 1
        assert "has no family" in capsys.readouterr().err
