"""Single events that are looked for beside a load."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks._kit import WrongAnswerError
from benchmarks._probes import CLOCKS_S, Probes


class Client:
    """A ClickHouse that shows these counters, and notes since when it was asked for some."""

    def __init__(self) -> None:
        self.shown: dict[str, int] = {}
        self.since_s: list[int] = []

    def query(self, _sql: str, parameters: dict[str, int]) -> Any:
        self.since_s.append(parameters["since_s"])
        return SimpleNamespace(result_rows=list(self.shown.items()))


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def probes(client: Client) -> Probes:
    """Of a Kafka without an address, where nothing arrives."""
    return Probes("", cast("Any", client))


def test_one_that_is_not_counted_for_an_hour_is_looked_for_until_it_is(
    client: Client, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A soak whose worker was behind for some minutes waited for it in vain, and told nothing."""
    began_s = time.time()
    probes.send()
    probes.send()
    client.shown = {"probe:1": 1}
    assert not probes.look()
    monkeypatch.setattr(time, "time", lambda: began_s + 3600)
    assert not probes.look()
    assert client.since_s[-1] <= began_s - CLOCKS_S
    client.shown = {"probe:0": 1}
    assert probes.look()
    assert set(probes.took_s) == {"probe:0", "probe:1"}
    probes.look()
    assert client.since_s[-1] > began_s


def test_one_that_is_counted_twice_is_wrong(client: Client, probes: Probes) -> None:
    probes.send()
    client.shown = {"probe:0": 2}
    with pytest.raises(WrongAnswerError, match="probe:0 is 2 instead of 1"):
        probes.look()
