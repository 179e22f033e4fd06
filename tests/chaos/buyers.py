"""A process of several buyers that ask strict counters over the web API, and keep a ledger.

    python -m tests.chaos.buyers KIND NAME SEED RATE LEDGER ADDRESSES_JSON

Each buyer asks until it is answered, with the same id, of whichever web process answers; now and
then it asks again what it knows. SIGTERM ends them in order: what is not answered yet is asked
until it is, then the process says `finished`. Killed and started again, it goes on with its ledger.
"""

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx

from tests.kit.truth.ledger import Answer, Command, Ledger

BUYERS = 4
SEATS = 3
TIMEOUT_S = 5.0
AGAIN_S = 0.3
AGAIN = 0.1
"""How often something is asked again that was answered."""

RECENT = 20
"""Of so many of a buyer's own commands: a counter remembers only so many ids."""

QUOTAS = 0.4
"""So many commands ask a quota, the others a stock."""

COMMANDS_PER_INCREMENT = 0.25
"""Each is waited for, and costs as much as many increments."""


class Buyer:
    """One thread that asks. `rate` commands a second at most."""

    def __init__(
        self, ledger: Ledger, urls: Sequence[str], name: str, rate: float, stopped: threading.Event
    ) -> None:
        self._ledger = ledger
        self._clients = [httpx.Client(base_url=url, timeout=TIMEOUT_S) for url in urls]
        self._name = name
        self._chance = random.Random(name)
        self._pause_s = 1 / rate
        self._stopped = stopped

    def run(self, first: Sequence[int]) -> None:
        """Ask what somebody did not hear the answer to, then commands of its own until the end."""
        for number in first:
            self.ask(number)
        mine: list[int] = []
        while not self._stopped.wait(self._pause_s):
            mine.append(self._ledger.ask(self._command(len(mine))))
            self.ask(mine[-1])
            if self._chance.random() < AGAIN:
                self.ask(self._chance.choice(mine[-RECENT:]))

    def close(self) -> None:
        """Let go of the connections."""
        for client in self._clients:
            client.close()

    def _command(self, number: int) -> Command:
        """More is asked for than there is, or than a quota allows."""
        chance = self._chance
        if chance.random() < QUOTAS:
            return {
                "counter": chance.choice(("calls:page", "rate:page")),
                "what": "acquire",
                "amount": chance.randint(1, 3),
                "id": f"{self._name}-{number}",
            }
        is_delivery = chance.random() < 0.25
        return {
            "counter": f"stock:seat-{chance.randrange(SEATS)}",
            "what": "increment" if is_delivery else "decrement",
            "amount": chance.randint(1, 6) if is_delivery else chance.randint(1, 3),
            "id": f"{self._name}-{number}",
        }

    def ask(self, number: int) -> None:
        """Until it is answered, as a whole."""
        command = self._ledger.commands[number]
        while (answer := self._answer(command)) is None:
            time.sleep(AGAIN_S)
        self._ledger.tell(number, answer)

    def _answer(self, command: Command) -> Answer | None:
        path = f"/api/v1/counters/{quote(command['counter'], safe='')}/{command['what']}"
        amount = "delta" if command["what"] == "increment" else "amount"
        body = {amount: command["amount"], "id": command["id"]}
        try:
            answer = self._chance.choice(self._clients).post(path, json=body)
        except httpx.HTTPError:
            return None
        if answer.status_code != httpx.codes.OK:
            # A web process that begins does not know the rules at once, and says so.
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                print(f"{command}: {answer.status_code} {answer.text[:300]}", flush=True)
            return None
        try:
            document = answer.json()
        except ValueError:  # Torn on its way: nobody knows what it said.
            return None
        return Answer(document["accepted"], document["remaining"])


def main() -> None:
    _, name, seed, rate, path, addresses = sys.argv[1:]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    ledger = Ledger(Path(path))
    ledger.begin()
    left, urls = ledger.unanswered(), json.loads(addresses)["webs"]
    names = [f"{seed}-{name}-{len(ledger.commands)}-{number}" for number in range(BUYERS)]
    each = float(rate) * COMMANDS_PER_INCREMENT / BUYERS
    print("sending", flush=True)
    with ThreadPoolExecutor(BUYERS) as threads:
        runs = []
        for number, own in enumerate(names):
            buyer = Buyer(ledger, urls, own, each, stopped)
            runs.append(threads.submit(buyer.run, left[number::BUYERS]))
        for run in runs:
            run.result()
    print(f"finished: {len(ledger.answers)} answered", flush=True)
    ledger.close()


if __name__ == "__main__":
    main()
