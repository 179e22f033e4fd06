"""A build that became live is counted by the command that made it so, until others do."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipeline.builds import replay
from pipeline.builds.replay import Replay
from pipeline.errors import TryAgainError
from tests.kit.clocks import ManualClock

HOUR_S = 3_600


def test_kafka_may_be_away_for_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ended after a minute, and with it the only workers of the live build."""
    clock, told = ManualClock(), [TryAgainError("away")] * 3 + [["here"], ["here", "there"]]

    def hosts(_kafka: object, build: int) -> list[str]:
        assert build == 7
        clock.advance(HOUR_S)
        found = told.pop(0)
        if isinstance(found, TryAgainError):
            raise found
        return found

    monkeypatch.setattr(replay, "hosts_of_members", hosts)
    monkeypatch.setattr(replay, "LOOK_S", 0.0)
    held: Any = SimpleNamespace(_kafka=None, _clock=clock, _wishes=SimpleNamespace(asked=False))
    crew: Any = SimpleNamespace(size=1, look=lambda: None, is_steady=lambda: True)
    assert not Replay.wait_for_others(cast("Replay", held), 7, crew, 1.0)
    assert Replay.wait_for_others(cast("Replay", held), 7, crew, math.inf)
    assert told == []
