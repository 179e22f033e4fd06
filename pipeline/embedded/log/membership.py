"""What a consumer group is made of: its states, its members, and what of it survives a restart."""

from collections import Counter
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any

import msgspec

INITIAL_DELAY_MS = 100
MEMBERS_MAX = 2000
HELD_BYTES_MAX = 64 * 1024 * 1024
"""Of what members of all groups of the node bring and are given, which lies in memory."""
SESSION_MS_MIN = 100
SESSION_MS_MAX = 1_800_000

Protocols = list[tuple[str, bytes]]


class State(StrEnum):
    """The protocol's own words, as ListGroups and DescribeGroups show them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class JoinRequest(msgspec.Struct):
    """What a member asks with. `new_member_id` is used when it brings none."""

    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id_first: bool


class Member(msgspec.Struct):
    """A member as it is kept. `deadline_ms` is when silence makes it leave."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: Protocols
    assignment: bytes = b""
    deadline_ms: int = 0

    def held_bytes(self) -> int:
        """What others gave us to keep of it."""
        texts = (self.id, self.instance_id or "", self.client_id, self.client_host)
        return sum(map(len, texts)) + weight_of(self.protocols) + len(self.assignment)

    def is_same_as(self, request: JoinRequest) -> bool:
        """Whether this is who asks, under its id or under its instance id."""
        if self.id == request.member_id:
            return True
        return self.instance_id is not None and self.instance_id == request.instance_id

    def shown(self, protocol: str | None) -> dict[str, Any]:
        """What the leader is told of this member."""
        return {
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "metadata": self.metadata(protocol),
        }

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


class Snapshot(msgspec.Struct):
    """All of a group that survives a restart."""

    state: State
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: list[Member]


def weight_of(protocols: Protocols) -> int:
    """How much the protocols of a member hold."""
    return sum(len(name) + len(data) for name, data in protocols)


def common_protocols(members: Iterable[JoinRequest | Member]) -> set[str]:
    """The protocols that all of them speak."""
    return set.intersection(*({name for name, _ in member.protocols} for member in members))


def vote(members: Collection[Member]) -> str:
    """The protocol that most members prefer, of those that all of them speak."""
    common = common_protocols(members)
    votes = Counter(
        next(name for name, _ in member.protocols if name in common) for member in members
    )
    return votes.most_common(1)[0][0]
