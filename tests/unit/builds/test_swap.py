"""A build becomes live only when it is rolled up as far as it is counted."""

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import sentinel

import pytest

from pipeline.builds import swap as swap_module
from pipeline.builds.positions import Reached
from pipeline.builds.swap import swap
from pipeline.errors import OperatorError, TryAgainError
from pipeline.rollup.steps import Rolled
from tests.kit.clocks import ManualClock


@dataclass
class World:
    """Servers that do as they are told, and what was done in which order."""

    clock: ManualClock = field(default_factory=ManualClock)
    done: list[str] = field(default_factory=list)
    passes: list[Rolled] = field(default_factory=list)

    def do(self, name: str) -> Any:
        return lambda *_, **__: self.done.append(name)

    def roll_up(self) -> Rolled:
        self.done.append("rolled up")
        rolled = self.passes.pop(0) if self.passes else Rolled(took_s=1.0)
        self.clock.advance(rolled.took_s)
        return rolled

    def swap(self) -> int:
        return swap(sentinel.kafka, sentinel.client, 2, self.clock, "", roll_up=self.roll_up)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    answers = {
        "live_build": 1,
        "read_rebuilds": {},
        "log_ends": [5],
        "reached": {0: Reached(4, 1_000)},
    }
    for name, answer in answers.items():
        monkeypatch.setattr(swap_module, name, lambda *_, answer=answer, **__: answer)
    for name in ("carry", "hand_over", "declare"):
        monkeypatch.setattr(swap_module, name, made.do(name))
    return made


def test_it_is_rolled_up_before_the_old_build_waits_and_once_more_when_all_is_flushed(
    world: World,
) -> None:
    assert world.swap() == 1
    assert world.done == ["rolled up", "carry", "hand_over", "rolled up", "carry", "declare"]


def test_a_long_first_pass_is_followed_by_a_short_one_while_the_old_build_goes_on(
    world: World,
) -> None:
    world.passes = [Rolled(took_s=300.0), Rolled(took_s=2.0)]
    world.swap()
    assert world.done[:4] == ["rolled up", "rolled up", "carry", "hand_over"]
    assert world.done[-1] == "declare"


def test_passes_that_stay_long_do_not_keep_the_old_build_waiting(world: World) -> None:
    world.passes = [Rolled(took_s=40.0)] * 3
    world.swap()
    assert world.done == [*["rolled up"] * 3, "carry", "hand_over", "carry", "declare"]


def test_what_cannot_be_rolled_up_does_not_become_live(world: World) -> None:
    world.passes = [Rolled(problems=["families a to b: no"])]
    with pytest.raises(OperatorError, match=r"build 2 cannot be rolled up.* a to b"):
        world.swap()
    assert "hand_over" not in world.done


def test_a_last_pass_that_takes_too_long_leaves_the_old_build(world: World) -> None:
    world.passes = [Rolled(took_s=1.0), Rolled(took_s=60.0)]
    with pytest.raises(TryAgainError, match="took too long"):
        world.swap()
    assert "declare" not in world.done
