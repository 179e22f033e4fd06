"""A run counts as one of so many minutes only if it came to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz import corpus, running

if TYPE_CHECKING:
    from pathlib import Path

BEGUN = "print('#7 INITED cov: 5 ft: 6 corp: 1', flush=True)\n"
"""As libFuzzer says it."""

DEATHS = {
    "killed": ("import os; os.kill(os.getpid(), 9)", "exit code -9, after 0 of 3 s"),
    "found before": ("raise SystemExit(77)", "exit code 77, after 0 of 3 s"),
    "left": ("raise SystemExit(0)", "exit code 0, after 0 of 3 s"),
    "too soon": ("print('Done 7 runs in 2 second(s)')", "exit code 0, after 2 of 3 s"),
    "fell at the end": (
        "print('Done 7 runs in 4 second(s)'); raise SystemExit(71)",
        "exit code 71, after 4 of 3 s",
    ),
}


@pytest.fixture
def stands_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Without atheris, and without findings of its own among those of others."""
    monkeypatch.setattr(corpus, "FINDINGS", tmp_path)
    monkeypatch.setattr(command, "is_installed", lambda: True)
    return monkeypatch


@pytest.mark.parametrize("how", DEATHS)
def test_a_run_that_ends_early_does_not_count_though_it_leaves_no_finding(
    how: str, stands_in: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dies, told = DEATHS[how]
    stands_in.setattr(running, "_PROGRAM", ("-c", BEGUN + dies))
    run = running.guided_run("jwts", 0.05)
    assert (run.executions, run.findings) == (7, [])
    assert told in (run.shortfall or "")
    assert command.main(["jwts", "--minutes", "0.05"]) == 1
    assert f"    ended early: {told}" in capsys.readouterr().out


def test_a_run_that_comes_to_its_end_counts(
    stands_in: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stands_in.setattr(running, "_PROGRAM", ("-c", BEGUN + "print('Done 9 runs in 4 second(s)')"))
    run = running.guided_run("jwts", 0.05)
    assert (run.code, run.seconds, run.shortfall) == (0, 4, None)
    assert command.main(["jwts", "--minutes", "0.05"]) == 0
    assert "ended early" not in capsys.readouterr().out
