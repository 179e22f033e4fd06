"""A run that says nothing is no proof, and no time-out is shorter than what is waited for."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import proof, test_chaos
from tests.chaos.run import BrokerLostError, Outcome
from tests.chaos.score import Score
from tests.kit.truth.checker import Verdict

PROJECT = Path(__file__).parents[2]
WELL = Outcome(1, Verdict(acknowledged=1), Score())


def plays(*found: Outcome | None) -> tuple[Callable[..., Outcome], list[int]]:
    """A run that finds these one after the other; None is a broker that lost records."""
    seeds: list[int] = []

    def run(seed: int, _seconds: float, folder: Path, **_options: Any) -> Outcome:
        assert list(folder.iterdir()) == []
        (folder / "worker-0-1.txt").touch()
        seeds.append(seed)
        outcome = found[len(seeds) - 1]
        if outcome is None:
            raise BrokerLostError("Deleting the corrupt segment")
        return outcome

    return run, seeds


def test_another_seed_is_played_where_the_broker_lost_records_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seeds = plays(None, WELL)
    monkeypatch.setattr(proof, "run", run)
    assert proof.prove("embedded", 60.0, tmp_path) is WELL
    assert len(set(seeds)) == 2


def test_no_run_that_says_anything_is_a_failure_and_no_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seeds = plays(None, None)
    monkeypatch.setattr(proof, "run", run)
    with pytest.raises(pytest.fail.Exception, match="says nothing of Tally: Deleting") as failed:
        proof.prove("embedded", 60.0, tmp_path)
    assert all(f"seed {seed} " in str(failed.value) for seed in seeds)


def test_a_run_that_says_something_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seeds = plays(WELL, WELL)
    monkeypatch.setattr(proof, "run", run)
    proof.prove("embedded", 60.0, tmp_path)
    assert len(seeds) == 1


def test_the_interpreter_is_not_ended_before_the_test() -> None:
    options = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["pytest"]
    assert proof.timeout_s(test_chaos.MINUTE_S) < options["ini_options"]["faulthandler_timeout"]
    [of_long_forms] = re.findall(r"faulthandler_timeout=(\d+)", (PROJECT / "Makefile").read_text())
    assert proof.timeout_s(test_chaos.LONG_S) < int(of_long_forms)
