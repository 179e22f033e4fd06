"""A harm counts as done when it took effect, and only what is expected amid harms is borne."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.crew import Crew
from tests.chaos.harms import Harms
from tests.chaos.links import Link
from tests.chaos.schedule import LINKS, REPLAY, WEBS, Harm
from tests.chaos.score import Fate, Score
from tests.chaos.site import Site
from tests.kit.disks import Disk
from tests.kit.processes import wait_until
from tests.kit.proxy import HOST


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Nothing of it is started: every part is away."""
    made = Site("embedded", tmp_path, print)
    (tmp_path / "log").mkdir()
    made.broker = made._made_broker()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def harms(site: Site) -> Iterator[Harms]:
    made = Harms(site, Crew(site.folder, 1, 1.0, {}), print)
    yield made
    made.over.set()


@pytest.fixture
def peer(site: Site) -> Iterator[socket.socket]:
    """Connected by the site's link to the log, where a socket takes whatever comes."""
    with socket.create_server((HOST, 0)) as server:
        link = Link(server.getsockname()[1])
        site.proxies["log"].close()
        site.proxies["log"] = link
        with socket.create_connection((HOST, link.port), timeout=10) as made, server.accept()[0]:
            wait_until(lambda: link.connections, "the link has a connection")
            yield made


def harm(kind: str, for_s: float = 0.3) -> Harm:
    return Harm(0.0, kind, 0, for_s, 0.5)


def do(harms: Harms, *kinds: str) -> Score:
    for kind in kinds:
        harms.begin(harm(kind))
    harms.end()
    return harms.score


@pytest.mark.parametrize(
    "kind", ["kill log", "stop log", "restart worker", "stop web", "kill clickhouse"]
)
def test_a_part_that_is_away_is_not_harmed(harms: Harms, kind: str) -> None:
    score = do(harms, kind)
    assert (score.count(kind), score.count(kind, Fate.SKIPPED)) == (0, 1)
    assert score.undone([kind]) == [kind]


@pytest.mark.parametrize(
    "kind", [f"{verb} {link}" for verb in ("cut", "tear", "delay", "stall") for link in LINKS]
)
def test_a_link_that_nobody_uses_is_not_harmed(harms: Harms, kind: str) -> None:
    assert do(harms, kind).count(kind, Fate.SKIPPED) == 1


@pytest.mark.parametrize("kind", ["cut log", "delay log", "stall log"])
@pytest.mark.usefixtures("peer")
def test_a_link_with_a_connection_is_harmed(harms: Harms, kind: str) -> None:
    harms.begin(harm(kind))
    wait_until(lambda: harms.score.count(kind), kind)
    harms.end()
    assert harms.score.undone([kind]) == []


def test_connections_to_one_web_process_are_cut_where_senders_come_to_it(
    site: Site, harms: Harms
) -> None:
    with ExitStack() as stack:
        peers = []
        for number, web in enumerate(site.webs):
            server = stack.enter_context(socket.create_server(_address(web.url)))
            peer = socket.create_connection(_address(site.web_urls[number]), timeout=10)
            peers.append(stack.enter_context(peer))
            behind = stack.enter_context(server.accept()[0])
            behind.sendall(b"1")
            assert peer.recv(1) == b"1"
        assert len(peers) == WEBS == 2
        assert harms.do(Harm(0.0, "cut web", WEBS + 1, 0.3, 0.5)) is Fate.DONE
        with pytest.raises(ConnectionResetError):
            peers[1].recv(1)
        peers[0].settimeout(0.3)
        with pytest.raises(TimeoutError):
            peers[0].recv(1)


def _address(url: str) -> tuple[str, int]:
    found = urlsplit(url)
    return str(found.hostname), found.port or 0


def test_what_is_to_be_torn_amid_a_stall_is_torn_after_it(
    harms: Harms, peer: socket.socket
) -> None:
    harms.begin(harm("stall log", for_s=1.0))
    harms.begin(harm("tear log"))
    peer.sendall(b"half of this")
    wait_until(lambda: harms.score.count("tear log"), "it is torn", timeout_s=20)
    assert harms.score.count("stall log") == 1
    assert harms.site.proxies["log"].ended == 1


@pytest.mark.timeout(300)
def test_a_command_is_tried_again_until_the_server_is_back_and_late_once_all_is_well(
    site: Site, harms: Harms
) -> None:
    site.door._folder.joinpath("clickhouse").mkdir(exist_ok=True)
    harms.begin(harm("drop caches"))
    time.sleep(1.5)
    assert harms.score.count("drop caches") == 0
    site.door.start()
    wait_until(lambda: harms.score.count("drop caches"), "it is done once ClickHouse is there")
    assert harms.score.count("drop caches", Fate.FAILED) == 0
    assert do(harms, "kill clickhouse").count("kill clickhouse") == 1
    site.door.start()
    assert do(harms, "drop caches").count("drop caches", Fate.LATE) == 1


def test_a_command_that_fails_to_the_end_is_not_done(harms: Harms) -> None:
    harms.over.set()
    score = do(harms, "drop caches")
    assert (score.count("drop caches"), score.count("drop caches", Fate.FAILED)) == (0, 1)


@pytest.mark.timeout(300)
def test_a_replay_that_is_on_its_way_has_the_time_of_the_next_which_is_skipped(
    harms: Harms,
) -> None:
    began_s = time.monotonic()
    harms.begin(harm(REPLAY, for_s=1.0))
    wait_until(lambda: list(harms.site.folder.glob("command-replay-*")), "it is begun")
    harms.begin(harm(REPLAY, for_s=5.0))
    wait_until(lambda: harms.score.count(REPLAY, Fate.SKIPPED), "the next is skipped")
    wait_until(lambda: harms.score.count(REPLAY, Fate.FAILED), "it gives up")
    assert time.monotonic() - began_s >= 5.0
    assert harms.score.undone([REPLAY]) == [REPLAY]


def test_a_disk_that_is_not_there_is_no_failure_to_be_borne(harms: Harms) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        do(harms, "fill disk of log")
    assert raised.group_contains(RuntimeError, match="no small disk is mounted")


def test_a_disk_is_full_for_its_time(site: Site, harms: Harms) -> None:
    disk = site.disks["log"]
    if (why := disk.mount()) is not None:
        pytest.skip(why)
    harms.begin(harm("fill disk of log", for_s=60.0))
    wait_until(lambda: _is_full(disk.folder), "no byte is free")
    harms.end()
    assert harms.score.count("fill disk of log") == 1
    assert not _is_full(disk.folder)


class Freed(Disk):
    """Others free some of it as fast as it is filled, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(Path("freed"), 1)
        self.times = times

    def fill(self) -> bool:
        self.times -= 1
        return self.times < 0

    def free(self) -> None:
        pass


def test_a_disk_on_which_others_free_some_is_filled_again_within_the_time(
    site: Site, harms: Harms
) -> None:
    site.disks["log"] = Freed(3)
    assert harms.do(harm("fill disk of log", for_s=5.0)) is Fate.DONE
    site.disks["log"] = Freed(1_000_000)
    began_s = time.monotonic()
    assert harms.do(harm("fill disk of log", for_s=0.3)) is Fate.FAILED
    assert time.monotonic() - began_s >= 0.3


def _is_full(folder: Path) -> bool:
    return os.statvfs(folder).f_bavail == 0


def test_a_command_that_is_used_wrongly_is_no_failure_to_be_borne(harms: Harms) -> None:
    """As it would be if a command's options changed."""
    harms._partitions = 1_000_000
    with pytest.raises(ExceptionGroup) as raised:
        do(harms, "add partition")
    assert raised.group_contains(RuntimeError, match="ended with 2")
    assert harms.score.undone(["add partition"]) == ["add partition"]


def test_a_score_tells_how_often_what_became_of_each_kind() -> None:
    score = Score()
    for fate in (Fate.DONE, Fate.DONE, Fate.FAILED):
        score.note("cut log", fate)
    score.note("kill web", Fate.SKIPPED)
    assert str(score).splitlines() == [
        "harms: 2 done, 0 late, 1 failed, 1 skipped",
        "  cut log: 2 done, 1 failed",
        "  kill web: 1 skipped",
    ]
    assert score.undone(["kill web", "cut log", "drop caches"]) == ["drop caches", "kill web"]
