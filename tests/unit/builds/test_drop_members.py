"""A build is dropped when nobody counts it: who left without a word is waited for."""

import pytest

from pipeline.builds import drop
from pipeline.builds.members import MEMBER_S
from pipeline.errors import OperatorError
from schemas.addresses import KafkaAddress
from tests.kit.clocks import ManualClock

NOWHERE = KafkaAddress("127.0.0.1:1")


class Group:
    """Its members by the second, in which a look is taken every half."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, members: int, leave_s: float) -> None:
        self.clock = ManualClock()
        self._began_s = self.clock.monotonic_s()
        self._members = members
        self._leave_s = leave_s
        monkeypatch.setattr(drop, "hosts_of_members", self.hosts)
        monkeypatch.setattr("time.sleep", self.clock.advance)

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic_s() - self._began_s

    def hosts(self, _kafka: KafkaAddress, build: int) -> list[str]:
        assert build == 2
        return ["10.0.0.1"] * self._members if self.passed_s < self._leave_s else []


def test_workers_that_were_killed_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, members=2, leave_s=10)
    drop._wait_for_nobody(NOWHERE, 2, group.clock)
    assert group.passed_s == 10


def test_workers_that_go_on_are_told_to_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, members=2, leave_s=float("inf"))
    with pytest.raises(OperatorError, match=r"workers count build 2 \(on 10\.0\.0\.1\): stop them"):
        drop._wait_for_nobody(NOWHERE, 2, group.clock)
    assert MEMBER_S < group.passed_s < MEMBER_S + 2
