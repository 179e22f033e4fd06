"""Readers of every mode while workers, ClickHouse and web processes die: no answer lies.

Increments are only added. So each answer is at most what was sent, a complete one that waited for a
receipt is at least what that stands for, a session never decreases, and in the end all is there.
"""

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.integration.web.conftest import Site
from tests.kit.processes import wait_until
from tests.kit.tally import start_worker

COUNTERS = 3
AWAY = {412, 503, 504}
"""What an answer may say while a server is away: it is then no number at all."""


@dataclass
class Truth:
    """What was sent of one counter, and what of it was acknowledged."""

    sent: int = 0
    known: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Chaos:
    """The site, what is true of its counters, and what was found wrong."""

    site: Site
    seed: int
    truths: dict[str, Truth]
    over: threading.Event = field(default_factory=threading.Event)
    wrong: list[str] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)

    def client(self, number: int) -> httpx.Client:
        return httpx.Client(base_url=self.site.webs[number % 2].url, timeout=15)

    def asked(self, client: httpx.Client, path: str, **more: Any) -> httpx.Response | None:
        """The answer; None while a server is away. Anything else is wrong."""
        try:
            answer = client.get(path, **more)
        except httpx.HTTPError:
            time.sleep(0.05)
            return None
        if answer.status_code in AWAY:
            time.sleep(0.05)
            return None
        if answer.status_code != 200:
            self.wrong.append(f"{path}: {answer.status_code} {answer.text}")
            return None
        return answer


def write(chaos: Chaos, number: int) -> None:
    """Add to the counters until it is over; each id once, so that it may be sent again."""
    chance = random.Random(chaos.seed * 100 + number)
    ids = 0
    with chaos.client(number) as client:
        while not chaos.over.is_set():
            counter = chance.choice(list(chaos.truths))
            truth, delta = chaos.truths[counter], chance.randrange(1, 5)
            ids += 1
            body = {"delta": delta, "id": f"{chaos.seed}-{number}-{ids}"}
            with truth.lock:
                truth.sent += delta
            receipt = None
            while receipt is None:
                try:
                    answer = client.post(f"/api/v1/counters/{counter}/increment", json=body)
                except httpx.HTTPError:
                    time.sleep(0.05)
                    continue
                if answer.status_code == 200:
                    receipt = answer.json()["receipt"]
                else:
                    assert answer.status_code in AWAY, answer.text
                    time.sleep(0.05)
            with truth.lock:
                truth.known += delta
            time.sleep(0.01)


def read(chaos: Chaos, number: int, path: str, judge: Callable[[int, Any], str]) -> None:
    """Ask one kind of question again and again; `judge` is told what was known before it."""
    chance = random.Random(chaos.seed * 200 + number)
    with chaos.client(number) as client:
        while not chaos.over.is_set():
            counter = chance.choice(list(chaos.truths))
            truth = chaos.truths[counter]
            with truth.lock:
                known = truth.known
            answer = chaos.asked(client, f"/api/v1/counters/{counter}{path}")
            if answer is None:
                continue
            document = answer.json()
            with truth.lock:
                sent = truth.sent
            chaos.answers[path] = chaos.answers.get(path, 0) + 1
            if document["total"] > sent:
                chaos.wrong.append(f"{path}: {document['total']} of {sent} that were sent")
            if why := judge(known, document):
                chaos.wrong.append(f"{path} of {counter}: {why}")
            time.sleep(0.02)


def anything(_known: int, _document: Any) -> str:
    """It may be older."""
    return ""


def all_of_it(known: int, document: Any) -> str:
    """A live answer that is complete has everything that was acknowledged before it."""
    if document["complete"] and document["total"] < known:
        return f"{document['total']}, though {known} were acknowledged before it was asked for"
    return ""


def read_after(chaos: Chaos, number: int) -> None:
    """Send, then wait for all receipts so far: what is answered has all of it, and no more.

    The last receipt alone says nothing of those before it, which may be in other partitions.
    """
    counter = f"own:{chaos.seed}"
    total = ids = 0
    receipts: list[str] = []
    with chaos.client(number) as client, chaos.client(number + 1) as other:
        while not chaos.over.is_set():
            ids += 1
            body = {"delta": 2, "id": f"{chaos.seed}-{ids}"}
            try:
                sent = client.post(f"/api/v1/counters/{counter}/increment", json=body)
            except httpx.HTTPError:
                ids -= 1  # The same again, by its id.
                time.sleep(0.05)
                continue
            if sent.status_code != 200:
                ids -= 1
                time.sleep(0.05)
                continue
            total += 2
            # What was answered for is counted; those since then are still to be waited for.
            receipts.append(sent.json()["receipt"])
            after = {"after": ",".join(receipts), "wait": 5}
            answer = chaos.asked(other, f"/api/v1/counters/{counter}/exact", params=after)
            if answer is None:
                continue
            chaos.answers["after"] = chaos.answers.get("after", 0) + 1
            if answer.json()["total"] != total:
                chaos.wrong.append(f"after {receipts}: {answer.json()} instead of {total}")
            receipts.clear()


def read_session(chaos: Chaos, number: int) -> None:
    """One client, two processes in turn: no counter ever decreases."""
    seen: dict[str, int] = {}
    session, turn = "", number
    clients = [chaos.client(0), chaos.client(1)]
    while not chaos.over.is_set():
        for counter in chaos.truths:
            turn += 1
            headers = {"Tally-Session": session} if session else {}
            path = f"/api/v1/counters/{counter}" + ("/exact?wait=1" if turn % 5 == 0 else "")
            answer = chaos.asked(clients[turn % 2], path, headers=headers)
            if answer is None:
                continue
            session, total = answer.headers["tally-session"], answer.json()["total"]
            chaos.answers["session"] = chaos.answers.get("session", 0) + 1
            if total < seen.get(counter, 0):
                chaos.wrong.append(f"session: {total} after {seen[counter]}")
            seen[counter] = total
    for client in clients:
        client.close()


def disturb(chaos: Chaos, until_s: float) -> None:
    """Kill and freeze one part after the other, and let it come back."""
    site, chance, round_ = chaos.site, random.Random(chaos.seed), 0
    door = site.tally.door
    assert door is not None
    while time.monotonic() < until_s:
        what = ("worker", "freeze", "clickhouse", "web")[round_ % 4]
        round_ += 1
        time.sleep(chance.uniform(0.5, 1.5))
        if what == "worker":
            site.tally.workers[0].kill()
            site.tally.workers[0] = start_worker(site.tally, site.folder / "worker-again.txt")
        elif what == "freeze":
            site.tally.workers[0].send(signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 2))
            site.tally.workers[0].send(signal.SIGCONT)
        elif what == "clickhouse":
            door.kill()
            time.sleep(chance.uniform(0, 1))
            door.start()
        else:
            site.webs[1].kill()
            site.webs[1].start()


def run(site: Site, seconds: float) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    truths = {f"chaos{seed}:{number}": Truth() for number in range(COUNTERS)}
    chaos = Chaos(site, seed, truths)
    readers = [("", anything), ("/exact", anything), ("/live?wait=2", all_of_it)]
    threads = [
        threading.Thread(target=write, args=(chaos, 0)),
        threading.Thread(target=write, args=(chaos, 1)),
        threading.Thread(target=read_session, args=(chaos, 0)),
        threading.Thread(target=read_after, args=(chaos, 0)),
        *(
            threading.Thread(target=read, args=(chaos, number, path, judge))
            for number, (path, judge) in enumerate(readers)
        ),
    ]
    for thread in threads:
        thread.start()
    try:
        disturb(chaos, time.monotonic() + seconds)
        time.sleep(1)
    finally:
        chaos.over.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert chaos.wrong == [], f"seed {seed}"
    print(chaos.answers)
    asked = [*(path for path, _ in readers), "session", "after"]
    assert min(chaos.answers.get(what, 0) for what in asked) > 0
    for counter, truth in truths.items():
        assert truth.sent == truth.known > 0

        def is_whole(counter: str = counter, total: int = truth.known) -> bool:
            found = site.web.client.get(f"/api/v1/counters/{counter}/live")
            return found.status_code == 200 and found.json()["total"] == total

        wait_until(is_whole, f"{counter} is {truth.known}", timeout_s=60, poll_s=0.5)


@pytest.mark.timeout(240)
def test_no_answer_lies_while_parts_die(site: Site) -> None:
    run(site, 18)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_no_answer_lies_while_parts_die_for_long(site: Site) -> None:
    run(site, 180)
