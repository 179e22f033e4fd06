"""Strict counters without servers: a log, a changelog that is compacted, owners that die or wake.

An owner reads from the committed offset on, decides, and writes records one by one, so that it may
die after any of them. One that was replaced goes on as if nothing had happened, as long as the dice
let it. Whatever reaches the changelog is told: clients hear it.
"""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.changelog import ChangelogRecord
from pipeline.strict.changelog import counter_of, told
from pipeline.strict.owned import OwnedPartition, Recovering
from pipeline.strict.state import id_digest

COUNTERS = ("stock:a", "stock:b", "quota:c")
IDS = 40


@dataclass
class Logged:
    """A command in the log."""

    timestamp_ms: int
    fields: dict[str, object]

    @property
    def value(self) -> bytes:
        return json.dumps(self.fields).encode()


@dataclass
class Owner:
    """Somebody who has, or had, the partition."""

    owned: OwnedPartition
    position: int
    to_write: list[ChangelogRecord] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    tombstones: list[ChangelogRecord] = field(default_factory=list)


class World:
    """All of it, driven by one seed. `writers_differ=False` is a Tally that is broken on purpose:
    owners overwrite each other's records. So is `patient=False`: it forgets what others wrote
    before its own record is safe; `adopts=False`: it commits past what others wrote, and has no
    record of its own of that; `fenced=False`: a commit passes though others own the partition."""

    def __init__(
        self,
        seed: int,
        *,
        writers_differ: bool = True,
        patient: bool = True,
        adopts: bool = True,
        fenced: bool = True,
    ) -> None:
        self.dice = random.Random(seed)
        self.writers_differ = writers_differ
        self.patient = patient
        self.adopts = adopts
        self.fenced = fenced
        self.log: list[Logged] = []
        self.changelog: list[ChangelogRecord] = []
        self.committed = 0
        self.owners: list[Owner] = []
        self.heard: dict[tuple[str, str], set[tuple[bool, int]]] = {}
        self.now_ms = 1_000
        self.takeovers = 0

    def run(self, steps: int) -> None:
        """Let things happen, then let one last owner decide what is left."""
        self.take_over()
        actions = [self.send] * 6 + [self.act] * 12 + [self.take_over, self.compact, self.die]
        for _ in range(steps):
            self.dice.choice(actions)()
        self.take_over()
        while self.owners[-1].position < len(self.log) or self.owners[-1].to_write:
            self.go_on(self.owners[-1])

    def send(self) -> None:
        """A client sends a command; of ids, many repeat, each with the same command."""
        self.now_ms += self.dice.choice([-3, 0, 1, 7, 60])
        number = self.dice.randrange(IDS)
        same = random.Random(number)
        counter = same.choice(COUNTERS)
        fields: dict[str, object] = {"id": f"id-{number}", "counter": counter}
        amount = same.randint(1, 5)
        if counter.startswith("quota"):
            fields |= {"op": "acquire", "amount": amount, "limit": 12, "window_ms": 50}
        else:
            fields |= {"op": same.choice(["increment", "decrement"]), "amount": amount}
        self.log.append(Logged(self.now_ms, fields))

    def take_over(self) -> None:
        """Somebody new has the partition, from the committed offset on; others may not know."""
        committed = self.committed
        recovering = Recovering()
        for key, value in self.changelog:
            recovering.add(key, value)
        self.takeovers += 1
        writer = self.takeovers.to_bytes(8) if self.writers_differ else b"somebody"
        owned = recovering.own(0, 1, writer)
        if self.adopts:
            owned.adopt(committed)
        self.owners = [*self.owners[-2:], Owner(owned, committed)]

    def act(self) -> None:
        """Somebody goes on, mostly the one who should."""
        self.go_on(self.owners[-1] if self.dice.random() < 0.7 else self.dice.choice(self.owners))

    def go_on(self, owner: Owner) -> None:
        if owner.to_write:
            self._append([owner.to_write.pop(0)])
            if not owner.to_write:
                owner.tombstones += owner.owned.confirmed(owner.counters)
                self._commit(owner)
        elif owner.tombstones:
            self._append([owner.tombstones.pop(0)])
        else:
            self._decide(owner)

    def die(self) -> None:
        """An owner dies with what it had in memory; a new one comes."""
        self.owners.remove(self.dice.choice(self.owners))
        self.take_over()

    def compact(self) -> None:
        """Of each key the last record stays, and no tombstone."""
        last = dict(self.changelog)
        self.changelog = [(key, value) for key, value in last.items() if value is not None]

    def _decide(self, owner: Owner) -> None:
        end = min(len(self.log), owner.position + self.dice.randint(1, 4))
        for offset in range(owner.position, end):
            owner.owned.take(offset, self.log[offset].timestamp_ms, self.log[offset].value)
        owner.position = end
        owner.counters, owner.to_write = owner.owned.unwritten()
        if not self.patient:
            self._append(owner.owned.confirmed(owner.counters))
        if not owner.to_write:
            self._commit(owner)

    def _commit(self, owner: Owner) -> None:
        if owner is self.owners[-1] or not self.fenced:
            self.committed = owner.position

    def _append(self, records: Iterable[ChangelogRecord]) -> None:
        for key, value in records:
            self.changelog.append((key, value))
            if value is not None:
                self._hear(counter_of(key), value)

    def _hear(self, counter: str, value: bytes) -> None:
        found = told(value)
        for number in range(IDS):
            answer = found.answer(id_digest(f"id-{number}"))
            if answer is not None:
                heard = self.heard.setdefault((counter, f"id-{number}"), set())
                heard.add((answer.accepted, answer.remaining))
