"""While builds are swapped, each answer is wholly of the old build or wholly of the new one.

In the old one every cell is spoilt, so that no window and no total is the same in both. Nobody
sends anything meanwhile: there are two answers to each question, and a third one is a mixture.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from pipeline.builds.swap import declare
from pipeline.clock import SystemClock
from tests.integration.builds.conftest import FAMILY, REPLAY_TIMEOUT_S, Running
from tests.kit.processes import wait_until
from tests.kit.web import Web

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.parametrize("running", ["embedded"], indirect=True),
]

SPOIL = (
    "INSERT INTO tally.cells_1m (build, counter, region, window, slot, replica, shard, p, n, "
    "duplicates, through) SELECT build, counter, region, window, slot, replica, shard, "
    "p * 2 + 1, n, duplicates, through FROM tally.cells_1m WHERE build = 1 AND family = 'past'"
)
TOTALS = f"SELECT counter, toInt64(net) FROM tally.totals WHERE family = '{FAMILY}' ORDER BY ALL"
MINUTES = (
    "SELECT counter, toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m "
    f"WHERE family = '{FAMILY}' ORDER BY ALL"
)
REGIONS = (
    "SELECT counter, region, toUnixTimestamp(window), toInt64(count) "
    f"FROM tally.counts_by_region_1m WHERE family = '{FAMILY}' ORDER BY ALL"
)
COUNTERS = (f"{FAMILY}:key-1", f"{FAMILY}:key-2")
AWAY = {503, 504}
"""What the web may say instead of a number while ClickHouse is slow."""

PAUSE_S = 0.02
QUIET_S = 5.0
"""Longer than from one rollup to the next: what is the same after it stays so."""

SETTLE_TIMEOUT_S = 90.0
SWAPS = 30


@dataclass
class Looker:
    """Asks one question again and again. `runs` are answers and how often each came in a row."""

    name: str
    ask: Callable[[], Any]
    runs: list[tuple[Any, int]] = field(default_factory=list)

    def look(self) -> None:
        """Ask once. No answer is none."""
        found = self.ask()
        if found is None:
            return
        if self.runs and self.runs[-1][0] == found:
            self.runs[-1] = (found, self.runs[-1][1] + 1)
        else:
            self.runs.append((found, 1))


def settled(lookers: Sequence[Looker]) -> list[Any]:
    """The answer of each, once all stay the same."""
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    found = [one.ask() for one in lookers]
    while time.monotonic() < deadline_s:
        time.sleep(QUIET_S)
        before, found = found, [one.ask() for one in lookers]
        if None not in found and found == before:
            return found
    raise AssertionError("they never stay the same")


def of_web(client: httpx.Client, path: str) -> Callable[[], Any]:
    """Asks one process for what it knows of counters: their totals and windows, nothing of when."""

    def ask() -> Any:
        answer = client.get(f"/api/v1/counters{path}")
        if answer.status_code in AWAY:
            return None
        assert answer.status_code == 200, answer.text
        document = answer.json()
        return [
            (one["counter"], one["total"], one["net"], one["windows"])
            for one in document.get("counters", [document])
        ]

    return ask


def lookers_at(running: Running, web: Web, stack: ExitStack) -> list[Looker]:
    """Views, each in a query of its own, and the web's exact reads, on connections of the stack."""

    def of_path(path: str) -> Callable[[], Any]:
        return of_web(stack.enter_context(httpx.Client(base_url=web.url, timeout=40)), path)

    def of_view(query: str) -> Callable[[], Any]:
        return lambda: running.site.tally.rows(query)

    paths = {
        "exact": f"/{COUNTERS[0]}/exact",
        "windows": f"/{COUNTERS[1]}/windows?by=1d",
        "minutes": f"/{COUNTERS[0]}/windows?by=1m",
    }
    return [
        Looker("totals", of_view(TOTALS)),
        Looker("counts_1m", of_view(MINUTES)),
        Looker("counts_by_region_1m", of_view(REGIONS)),
        *(Looker(name, of_path(path)) for name, path in paths.items()),
    ]


@contextmanager
def all_look(lookers: Sequence[Looker]) -> Iterator[None]:
    """Each in a thread of its own, again and again, until the block is over."""
    stop, failures = threading.Event(), list[Exception]()

    def look(looker: Looker) -> None:
        while not stop.wait(PAUSE_S):
            try:
                looker.look()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=look, args=(one,), name=one.name) for one in lookers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not failures, failures[:3]
    for one in lookers:
        print(one.name, [times for _, times in one.runs])


def expect_once(looker: Looker, old: Any, new: Any) -> None:
    """It saw the old answer, then the new one, and no other."""
    answers = [answer for answer, _ in looker.runs]
    assert old != new, looker.name
    assert len(answers) == 2, (looker.name, [times for _, times in looker.runs])
    assert answers == [old, new], looker.name


def expect_either(looker: Looker, old: Any, new: Any) -> None:
    """It saw both answers, in any order, and no other."""
    answers = [answer for answer, _ in looker.runs]
    mixed = [answer for answer in answers if answer not in (old, new)]
    assert not mixed, f"{looker.name}: {len(mixed)} of {len(answers)}: {str(mixed[0])[:500]}"
    assert old in answers, looker.name
    assert new in answers, looker.name


def test_each_answer_is_wholly_of_the_old_build_or_wholly_of_the_new_one(running: Running) -> None:
    site = running.site
    running.stream.finish()
    site.settle(1)
    site.tally.client().command(SPOIL)
    with ExitStack() as stack:
        web = stack.enter_context(Web(running.env, site.folder / "web.txt"))
        lookers = lookers_at(running, web, stack)
        old = settled(lookers)
        with all_look(lookers):
            with running.replay("--swap", name="swap") as swap:
                assert swap.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, swap.output()
            wait_until(lambda: all(len(one.runs) > 1 for one in lookers), "all see the new one")
            new = settled(lookers)
        for looker, *both in zip(lookers, old, new, strict=True):
            expect_once(looker, *both)
        assert dict(new[0]) == running.stream.truth.totals()
        running.expect_views_to_be_true()
        site.stop(running.workers)
        swap_back_and_forth(running, lookers)
        for looker, *both in zip(lookers, old, new, strict=True):
            expect_either(looker, *both)


def swap_back_and_forth(running: Running, lookers: Sequence[Looker]) -> None:
    """By the one insert of a swap, which is all that readers see of it: many, to meet them all."""
    client, clock = running.site.tally.client(), SystemClock()
    chance = random.Random(1)
    for one in lookers:
        one.runs.clear()
    with all_look(lookers):
        live = 2
        for _ in range(SWAPS):
            time.sleep(chance.uniform(0, 0.3))
            declare(client, live, 3 - live, clock, "a test")
            live = 3 - live
