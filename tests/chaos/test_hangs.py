"""What does not end ends the run, but where it waits for a server that something is done to."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.crew import Crew
from tests.chaos.hangs import HangError
from tests.chaos.harms import Harms
from tests.chaos.schedule import Harm
from tests.chaos.score import Fate
from tests.chaos.site import Site
from tests.kit.processes import Process, ProcessFailedError, wait_until

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
PROMPT = "import time"
HANGS_S = 1.0


class Standing(Site):
    """Nothing of it is started but what a test starts, and its servers are there if it says so."""

    away: frozenset[str] = frozenset()

    def serves(self, part: str) -> bool:
        return part not in self.away


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Standing]:
    made = Standing("embedded", tmp_path, print)
    made.broker = made._made_broker()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def harms(site: Standing) -> Iterator[Harms]:
    made = Harms(site, Crew(site.folder, 1, 1.0, {}), print)
    made.hangs.timeout_s = HANGS_S
    yield made
    made.over.set()


def started(site: Site, program: str) -> Process:
    """In the place of a worker."""
    path = site.folder / "worker-0-1.txt"
    command = [sys.executable, "-c", f"{program}\nprint('here', flush=True)\ntime.sleep(60)"]
    process = Process(command, output_path=path)
    process.wait_for_line("here")
    site.workers[0] = process
    return process


def harm(kind: str, for_s: float = 0.0) -> Harm:
    return Harm(0.0, kind, 0, for_s, 0.5)


def test_a_part_that_ignores_sigterm_ends_the_run_and_what_was_seen_is_told(
    site: Standing, harms: Harms
) -> None:
    process = started(site, DEAF)
    harms.begin(harm("restart worker"))
    with pytest.raises(ExceptionGroup) as raised:
        harms.end()
    seen = r"worker-0 had not ended after \d\.\d s, in the last 1\.\d s of which nothing was done "
    seen += r"to worker-0, log, clickhouse; the load of the machine was [\d.]+; it wrote:\nhere"
    assert raised.group_contains(HangError, match=seen)
    assert not process.running
    site.look_at_ends()
    assert site.bugs() == []  # It was killed by who waited for it.


def test_a_part_that_ends_when_it_is_asked_to_is_restarted(site: Standing, harms: Harms) -> None:
    started(site, PROMPT)
    assert harms.do(harm("restart worker")) is Fate.DONE


@pytest.mark.parametrize("kind", ["stop worker", "stall log", "delay clickhouse"])
def test_a_part_that_something_is_done_to_or_to_its_servers_may_take_so_much_longer(
    site: Standing, harms: Harms, kind: str
) -> None:
    process = started(site, DEAF)
    harms.begin(harm(kind, for_s=2.5))
    began_s = time.monotonic()
    with pytest.raises(HangError):
        harms.do(harm("restart worker"))
    assert time.monotonic() - began_s >= 2.5 + HANGS_S - 0.5
    assert not process.running


def test_a_part_whose_server_is_away_may_wait_for_it(site: Standing, harms: Harms) -> None:
    process = started(site, DEAF)
    site.away = frozenset({"log"})
    harms.begin(harm("restart worker"))
    time.sleep(2 * HANGS_S)
    assert process.running
    process.kill()  # As it would end by itself once the log were back.
    harms.end()
    assert harms.score.count("restart worker") == 1


@pytest.mark.parametrize("kind", ["cut log", "skew clock of workers", "stop clickhouse"])
def test_what_keeps_no_part_from_its_end_gives_it_no_time(
    site: Standing, harms: Harms, kind: str
) -> None:
    """ClickHouse does not run here, so it is not stopped."""
    started(site, DEAF)
    harms.begin(harm(kind, for_s=30.0 if "skew" in kind else 0.0))
    with pytest.raises(HangError, match="nothing was done to worker-0"):
        harms.do(harm("restart worker"))


def test_a_command_that_hangs_ends_the_run(
    site: Standing, harms: Harms, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site.folder / "command-shard-1.txt"
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(harms, "_process", lambda _: Process(command, output_path=path))
    with pytest.raises(HangError, match=r"`tally shard \S+ --n \d` had not ended after"):
        harms.do(harm("split counter"))


def test_a_server_may_be_asked_to_end_while_others_are_away(
    site: Standing, harms: Harms, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(site, DEAF)
    monkeypatch.setattr(site.door, "_process", process)
    site.away = frozenset({"log", "clickhouse"})
    with pytest.raises(HangError, match="nothing was done to clickhouse;"):
        harms.do(harm("restart clickhouse"))


def test_a_kafka_that_does_not_end_is_no_bug_of_tally(
    site: Standing, harms: Harms, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf:
        running = True

        def stop(self) -> None:
            raise ProcessFailedError("ignored SIGTERM for 40 s")

        def kill(self) -> None:
            self.running = False

    monkeypatch.setattr(site, "broker", Deaf())
    harms.begin(harm("restart log"))
    wait_until(lambda: harms.score.count("restart log", Fate.FAILED), "it failed")
    harms.end()
