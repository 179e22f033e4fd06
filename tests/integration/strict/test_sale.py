"""A sale: many clients, one stock, and owners that are killed and stopped while they decide."""

import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.integration.strict.conftest import Site

STOCK = 1_000
CLIENTS = 200
PATIENCE_S = 90.0


@dataclass
class Sale:
    """What clients were told, each id's first answer; a second one that differs is remembered."""

    url: str
    answers: dict[str, tuple[bool, int]] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    asked_again: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def buy(self, client: httpx.Client, id_: str) -> bool:
        """Ask until it is known; whether it was accepted."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = client.post(self.url, json={"id": id_})
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return self._told(id_, answer.json())
            assert answer is None or answer.status_code in {503, 504}, answer.text
            assert time.monotonic() < deadline_s, f"{id_} was not answered: {answer}"
            with self._lock:
                self.asked_again += 1
            time.sleep(0.2)

    def _told(self, id_: str, document: dict[str, Any]) -> bool:
        told = (bool(document["accepted"]), int(document["remaining"]))
        with self._lock:
            if self.answers.setdefault(id_, told) != told:
                self.contradictions.append(f"{id_}: {self.answers[id_]}, then {told}")
        return told[0]


def shop(sale: Sale, number: int, orders: int, seed: int) -> None:
    """One client: orders with ids of its own, of which it asks some again at random."""
    dice = random.Random(seed * 1_000 + number)
    with httpx.Client(timeout=30) as client:
        mine: list[str] = []
        for order in range(orders):
            mine.append(f"order-{number}-{order}")
            sale.buy(client, mine[-1])
            if dice.random() < 0.1:
                sale.buy(client, dice.choice(mine))


def harm(site: Site, rounds: int, is_over: Callable[[], bool]) -> None:
    """Kill one worker, stop and wake another, by turns; a new one comes for each that is killed."""
    for turn in range(rounds):
        running = [worker for worker in site.tally.workers if worker.running]
        if turn % 2 == 0:
            running[0].kill()
            site.tally.workers.remove(running[0])
            site.start_worker()
        else:
            running[0].send(signal.SIGSTOP)
            # Longer than the group waits for it: others decide meanwhile, and it wakes as a zombie.
            time.sleep(9)
            running[0].send(signal.SIGCONT)
        if is_over():
            return


def hold(site: Site, counter: str, orders: int, rounds: int, seed: int) -> Sale:
    """One sale from its beginning to its end."""
    site.decided(counter, "increment", delta=STOCK, id="delivery")
    sale = Sale(f"{site.web.url}/api/v1/counters/{counter}/decrement")
    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        clients = [threads.submit(shop, sale, n, orders, seed) for n in range(CLIENTS)]
        harming = threads.submit(
            harm, site, rounds, lambda: all(client.done() for client in clients)
        )
        for client in clients:
            client.result()
        harming.result()
    return sale


def check(site: Site, counter: str, sale: Sale, orders: int) -> None:
    """Exactly the stock was sold, and whoever asks again hears the same."""
    assert len(sale.answers) == CLIENTS * orders
    assert not sale.contradictions
    sold = [remaining for accepted, remaining in sale.answers.values() if accepted]
    assert len(sold) == STOCK
    assert sorted(sold) == list(range(STOCK))
    with httpx.Client(timeout=30) as client:
        latest = list(sale.answers)[-100:]
        for id_ in latest:
            sale.buy(client, id_)
    assert not sale.contradictions
    assert site.decided(counter, "decrement", id="too late")["accepted"] is False


@pytest.mark.timeout(300)
def test_a_stock_is_sold_exactly_once_while_owners_die_and_sleep(site: Site) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    sale = hold(site, "stock:sale", orders=6, rounds=2, seed=seed)
    check(site, "stock:sale", sale, orders=6)


@pytest.mark.prove
@pytest.mark.timeout(1_200)
def test_many_sales_are_exact_while_owners_die_and_sleep(site: Site) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    for number in range(5):
        counter = f"stock:long-{number}"
        sale = hold(site, counter, orders=8, rounds=6, seed=seed + number)
        check(site, counter, sale, orders=8)
