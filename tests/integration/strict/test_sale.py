"""A sale: many clients, one stock, and owners that are killed and stopped while they decide."""

import random
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.integration.strict.conftest import Site
from tests.kit.processes import wait_until

STOCK = 1_000
CLIENTS = 200
ORDERS = 6
"""Of each client: more than there is to sell."""

PATIENCE_S = 240.0


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


def shop(sale: Sale, number: int, seed: int) -> None:
    """One client: orders with ids of its own, of which it asks some again at random."""
    dice = random.Random(seed * 1_000 + number)
    with httpx.Client(timeout=30) as client:
        mine: list[str] = []
        for order in range(ORDERS):
            mine.append(f"order-{number}-{order}")
            sale.buy(client, mine[-1])
            if dice.random() < 0.1:
                sale.buy(client, dice.choice(mine))


def wait_for_answers(sale: Sale, count: int) -> None:
    """Block until so many orders are answered."""
    wait_until(lambda: len(sale.answers) >= count, f"{count} answers", timeout_s=PATIENCE_S)


def kill_all(site: Site) -> None:
    """No owner is left that decided anything; one comes that knows nothing."""
    before = [worker for worker in site.tally.workers if worker.running]
    for worker in before:
        worker.kill()
        site.tally.workers.remove(worker)
    site.start_worker()


def stop_all_for_a_while(site: Site) -> None:
    """Another owner takes over and decides; then the former ones wake and do not know of it."""
    before = [worker for worker in site.tally.workers if worker.running]
    for worker in before:
        worker.send(signal.SIGSTOP)
    try:
        site.start_worker()
    finally:
        for worker in before:
            worker.send(signal.SIGCONT)


def harm(site: Site, sale: Sale, at: Sequence[int]) -> None:
    """Kill owners and stop them, by turns, each time when so many orders are answered."""
    for turn, count in enumerate(at):
        wait_for_answers(sale, count)
        (kill_all, stop_all_for_a_while)[turn % 2](site)


def hold(site: Site, counter: str, at: Sequence[int], seed: int) -> Sale:
    """One sale from its beginning to its end."""
    site.decided(counter, "increment", delta=STOCK, id="delivery")
    sale = Sale(f"{site.web.url}/api/v1/counters/{counter}/decrement")
    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        clients = [threads.submit(shop, sale, n, seed) for n in range(CLIENTS)]
        harming = threads.submit(harm, site, sale, at)
        for client in clients:
            client.result()
        harming.result()
    assert sale.asked_again, "no client ever had to ask again: nobody was harmed"
    return sale


def check(site: Site, counter: str, sale: Sale) -> None:
    """Exactly the stock was sold, and whoever asks again hears the same."""
    assert len(sale.answers) == CLIENTS * ORDERS
    sold = [remaining for accepted, remaining in sale.answers.values() if accepted]
    assert len(sold) == STOCK
    assert sorted(sold) == list(range(STOCK))
    with ThreadPoolExecutor(20) as threads, httpx.Client(timeout=30) as client:
        list(threads.map(lambda id_: sale.buy(client, id_), list(sale.answers)))
    assert not sale.contradictions
    assert site.decided(counter, "decrement", id="too late")["accepted"] is False


@pytest.mark.timeout(600)
def test_a_stock_is_sold_exactly_once_while_owners_die_and_sleep(site: Site) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    sale = hold(site, "stock:sale", at=[200, 500], seed=seed)
    check(site, "stock:sale", sale)


@pytest.mark.prove
@pytest.mark.timeout(1_500)
def test_many_sales_are_exact_while_owners_die_and_sleep(site: Site) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    for number in range(5):
        counter = f"stock:long-{number}"
        sale = hold(site, counter, at=[100, 250, 400, 600, 800, 950], seed=seed + number)
        check(site, counter, sale)
