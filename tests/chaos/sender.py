"""A process that sends increments until it is told to end, and keeps a journal of them.

    python -m tests.chaos.sender KIND NAME SEED RATE JOURNAL ADDRESSES_JSON

SIGTERM ends it in order: what has an id is sent again until it is acknowledged, then it says
`finished`. Killed and started again, it goes on with its journal.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.chaos.workload import Workload
from tests.kit.truth.record import Document, Journal

TURN_S = 0.25
AGAIN_S = 2.0
REFUSABLE = 0.01
TWICE = 0.04


class Way(Protocol):
    """How increments get to the log. Used by one thread."""

    all_need_ids: bool
    """Whether an increment without an id could be sent twice this way."""

    all_have_marks: bool
    sends_refusable: bool

    def send(self, documents: Mapping[int, Document]) -> None:
        """Begin to send them; must not raise, nor block for long."""
        ...

    def send_refusable(self, number: int, text: str) -> None: ...

    def acknowledged(self, timeout_s: float) -> Iterable[int]:
        """Numbers that the log has by now, each at least once; waits up to so long."""
        ...

    def is_idle(self) -> bool:
        """Whether all is known that will ever be known of what was sent."""
        ...

    def not_stored(self) -> Iterable[int]:
        """Numbers that certainly never got into the log, and may be sent again, id or not."""
        ...


class Sender:
    """Makes increments at a rate, sends them, and sends again what is not acknowledged."""

    def __init__(self, way: Way, name: str, seed: int, rate: float, journal: Journal) -> None:
        self._way = way
        self._journal = journal
        self._number = journal.next_number
        self._rate = rate
        kind = Workload(seed, name, self._number, all_have_marks=way.all_have_marks)
        self._workload = kind
        self._again_at_s: dict[int, float] = {
            number: 0.0
            for number, document in journal.sent.items()
            if number not in journal.acknowledged and "id" in document
        }
        self._repeatable: list[int] = []

    def turn(self, *, making: bool) -> None:
        """One turn: make new ones, send again what is due, hear what is acknowledged."""
        due = {}
        if making:
            due = self._made(int(self._rate * TURN_S))
        now_s = time.monotonic()
        old = [number for number, at_s in self._again_at_s.items() if at_s <= now_s]
        for number in [*old, *due]:
            if "id" in self._journal.sent[number]:
                self._again_at_s[number] = now_s + AGAIN_S
            else:
                # Certainly not in the log so far; whoever sends it now will hear of it again.
                self._again_at_s.pop(number, None)
            due[number] = self._journal.sent[number]
        if due:
            self._way.send(due)
        self._hear(TURN_S)

    def is_settled(self) -> bool:
        """Whether everything with an id is acknowledged, and nothing more will be heard."""
        return not self._again_at_s and self._way.is_idle()

    def _made(self, count: int) -> dict[int, Document]:
        now_ms = time.time_ns() // 1_000_000
        made = {}
        for number in range(self._number, self._number + count):
            chance = (number * 2_654_435_761 % 1000) / 1000
            if self._way.sends_refusable and chance < REFUSABLE:
                refusable = self._workload.refusable(number, now_ms)
                self._journal.send_refusable(number, refusable)
                self._way.send_refusable(number, refusable.text)
                continue
            made[number] = self._workload.document(number, now_ms, needs_id=self._way.all_need_ids)
        self._number += count
        self._journal.send(made)
        for number in self._repeatable[: int(TWICE * count) + 1]:
            made[number] = self._journal.sent[number]  # On purpose: it must not count again.
        self._repeatable = [number for number in made if "id" in self._journal.sent[number]]
        return made

    def _hear(self, timeout_s: float) -> None:
        known = list(self._way.acknowledged(timeout_s))
        self._journal.acknowledge(known)
        for number in known:
            self._again_at_s.pop(number, None)
        for number in self._way.not_stored():
            if number in self._journal.sent and number not in self._journal.acknowledged:
                self._again_at_s[number] = 0.0


def way_of(kind: str, addresses: Mapping[str, Any]) -> Way:
    """Blocks until what it sends to answers."""
    if kind == "foreign":
        from tests.chaos.senders.foreign import Foreign

        return Foreign(addresses["kafka"], addresses["partitions"])
    if kind == "web":
        from tests.chaos.senders.web import OverWeb

        return OverWeb(addresses["webs"])
    from tests.chaos.senders.own import Own

    return Own(addresses["kafka"], is_patient=kind == "patient")


def main() -> None:
    kind, name, seed, rate, journal_path, addresses = sys.argv[1:]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    journal = Journal(Path(journal_path))
    journal.begin()
    sender = Sender(way_of(kind, json.loads(addresses)), name, int(seed), float(rate), journal)
    print("sending", flush=True)
    while not stopped.is_set():
        began_s = time.monotonic()
        sender.turn(making=True)
        time.sleep(max(0.0, TURN_S - (time.monotonic() - began_s)))
    while not sender.is_settled():
        sender.turn(making=False)
    sender.turn(making=False)
    print(f"finished: {len(journal.acknowledged)} acknowledged", flush=True)
    journal.close()
    # Threads of clients may wait for servers that are away; nothing of theirs is needed any more.
    sys.stdout.flush()
    signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
