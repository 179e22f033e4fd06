"""Whatever members do, in any order: every question is answered once, and peace can be made."""

import random
from typing import Any

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log.groups import Group
from pipeline.embedded.log.membership import JoinRequest, Snapshot, State

SESSION_MS = 6000
REBALANCE_MS = 9000


class Client:
    """A member that follows the protocol, but may be slow, die, or come back as another."""

    def __init__(self, town: "Town", name: str, instance_id: str | None) -> None:
        self.town = town
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.asks = "join"
        self.is_waiting = False
        self.has_hung_up = False
        self.members: list[str] = []

    def answered(self, body: dict[str, Any]) -> None:
        if self.has_hung_up:
            return
        assert self.is_waiting, "answered twice, or unasked"
        self.is_waiting = False
        code = body["error_code"]
        if code is ErrorCode.member_id_required:
            self.member_id = body["member_id"]
        elif code is ErrorCode.rebalance_in_progress:
            self.asks = "join"
        elif code is not ErrorCode.none:
            self.member_id, self.asks = "", "join"
        elif self.asks == "join":
            self.member_id, self.generation = body["member_id"], body["generation_id"]
            self.town.see_generation(self.generation)
            self.asks = "sync"
            self.members = [m["member_id"] for m in body["members"]]
        else:
            self.asks = "heartbeat"

    def act(self) -> None:
        """The next thing a member does that is not waiting for an answer."""
        town = self.town
        if self.is_waiting:
            return
        if self.asks == "heartbeat":
            code = town.group.heartbeat(
                self.member_id, self.instance_id, self.generation, town.now_ms
            )
            if code is not ErrorCode.none:
                self.is_waiting = True
                self.answered({"error_code": code})
            return
        self.is_waiting = True
        if self.asks == "join":
            town.group.join(self.request(), town.now_ms, self.answered)
        else:
            given = {member_id: member_id.encode() for member_id in self.members}
            town.group.sync(
                self.member_id,
                self.instance_id,
                self.generation,
                assignments=given,
                now_ms=town.now_ms,
                reply=self.answered,
            )

    def request(self) -> JoinRequest:
        self.town.ids += 1
        return JoinRequest(
            member_id=self.member_id,
            new_member_id=f"{self.name}-{self.town.ids}",
            instance_id=self.instance_id,
            client_id=self.name,
            client_host="/host",
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[("range", self.town.rng.choice([b"one", b"two"]))],
            needs_member_id_first=True,
        )


class Town:
    """A group, its clients, and a clock."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.group = Group("g")
        self.now_ms = 0
        self.ids = 0
        self.newest_generation = 0
        self.clients: list[Client] = []
        self.saved = b""

    def see_generation(self, generation: int) -> None:
        assert generation >= self.newest_generation, "a generation came back"
        self.newest_generation = generation

    def save(self) -> None:
        """As the coordinator does after each call."""
        if self.group.changed:
            self.saved = msgspec.msgpack.encode(self.group.snapshot())
            self.group.changed = False

    def restart(self) -> None:
        """Another process takes over what was saved; answers on the way are lost."""
        self.group = Group("g")
        if self.saved:
            snapshot = msgspec.msgpack.decode(self.saved, type=Snapshot)
            self.group = Group.from_snapshot("g", snapshot, self.now_ms)
        for client in self.clients:
            client.is_waiting = False

    def something_happens(self) -> None:
        roll = self.rng.random()
        if roll < 0.05 and len(self.clients) < 6:
            name = f"c{self.rng.randrange(4)}"
            instance_id = name if self.rng.random() < 0.4 else None
            self.clients.append(Client(self, name, instance_id))
        elif roll < 0.08 and self.clients:
            self.clients.pop(self.rng.randrange(len(self.clients)))
        elif roll < 0.10 and self.clients:
            client = self.clients.pop(self.rng.randrange(len(self.clients)))
            client.has_hung_up = True
            self.group.leave(client.member_id, client.instance_id, self.now_ms)
        elif roll < 0.12:
            self.restart()
        elif roll < 0.35:
            self.now_ms += self.rng.choice([10, 500, 4000])
            self.group.tick(self.now_ms)
        elif self.clients:
            self.rng.choice(self.clients).act()

    def settle(self) -> None:
        """Everybody behaves for a minute. Of those with one instance id, only the last goes on."""
        last = {c.instance_id: c for c in self.clients if c.instance_id is not None}
        self.clients = [
            c for c in self.clients if c.instance_id is None or last[c.instance_id] is c
        ]
        for _ in range(120):
            for client in self.clients:
                client.act()
            self.now_ms += 500
            self.group.tick(self.now_ms)


@pytest.mark.parametrize("seed", range(60))
def test_a_group_survives_everything_and_settles(seed: int) -> None:
    print(f"seed {seed}")
    town = Town(seed)
    for _ in range(400):
        town.something_happens()
        town.save()
    town.settle()
    if town.clients:
        assert town.group.state is State.STABLE
        assert {c.member_id for c in town.clients} == set(town.group.members)
        for member in town.group.members.values():
            # A static member that came back has what was given to it under its earlier id.
            given = member.assignment.decode()
            assert given == member.id or (member.instance_id and given.startswith(member.client_id))
    else:
        assert town.group.state is State.EMPTY
