"""The groups of the node: gives each question to its group, saves what changed, lets time pass."""

import asyncio
import uuid
from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from pipeline.clock import Clock
from pipeline.embedded.log.groups import Group
from pipeline.embedded.log.membership import (
    HELD_BYTES_MAX,
    JoinRequest,
    Snapshot,
    State,
    weight_of,
)
from pipeline.embedded.log.meta import CommittedOffset, Meta

TICK_S = 0.05
GROUPS_MAX = 20_000


class Coordinator:
    """What changed in a group is saved before the answers leave, whose futures wake later."""

    def __init__(self, meta: Meta, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock
        self.groups: dict[str, Group] = {}
        decoder = msgspec.msgpack.Decoder(Snapshot)
        for name, state in meta.groups().items():
            self.groups[name] = Group.from_snapshot(name, decoder.decode(state), self._now_ms())
        for name in meta.groups_with_offsets():
            self.groups.setdefault(name, Group(name))
        self._held_by = {name: group.held_bytes() for name, group in self.groups.items()}
        self._held_bytes = sum(self._held_by.values())

    def _now_ms(self) -> int:
        # Sessions are durations, so a clock that was set must not end them.
        return int(self._clock.monotonic_s() * 1000)

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4()}"

    async def join(self, name: str, request: JoinRequest) -> dict[str, Any]:
        """Waits until the next generation is complete. Never raises."""
        if not name:
            return {"error_code": ErrorCode.invalid_group_id, "member_id": request.member_id}
        group = self.groups.get(name)
        if group is None:
            if self._is_full(name):
                return {"error_code": ErrorCode.group_max_size_reached, "member_id": ""}
            group = self.groups[name] = Group(name)
        brought = len(request.new_member_id) + weight_of(request.protocols)
        if self._held_bytes + brought > HELD_BYTES_MAX:
            return {"error_code": ErrorCode.group_max_size_reached, "member_id": request.member_id}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        group.join(request, self._now_ms(), _resolver(answer))
        self._weigh(group)
        self._save(group)
        return await answer

    async def sync(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: dict[str, bytes],
    ) -> dict[str, Any]:
        """Waits until the leader has assigned. Never raises."""
        group = self.groups.get(name)
        if group is None:
            return {"error_code": ErrorCode.unknown_member_id}
        if self._held_bytes + sum(map(len, assignments.values())) > HELD_BYTES_MAX:
            return {"error_code": ErrorCode.group_max_size_reached}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        group.sync(
            member_id,
            instance_id,
            generation,
            assignments=assignments,
            now_ms=self._now_ms(),
            reply=_resolver(answer),
        )
        self._save(group)
        return await answer

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.unknown_member_id
        return group.heartbeat(member_id, instance_id, generation, self._now_ms())

    def leave(self, name: str, member_id: str, instance_id: str | None) -> ErrorCode:
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.unknown_member_id
        code = group.leave(member_id, instance_id, self._now_ms())
        self._save(group)
        return code

    async def commit(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: list[CommittedOffset],
    ) -> ErrorCode:
        """Offsets are durable when this returns without an error."""
        group = self.groups.get(name)
        if not name:
            return ErrorCode.invalid_group_id
        if group is None:
            if generation >= 0 or member_id:
                return ErrorCode.illegal_generation
            if self._is_full(name):
                return ErrorCode.group_max_size_reached
            group = self.groups[name] = Group(name)
            self._weigh(group)
        code = group.may_commit(member_id, instance_id, generation, self._now_ms())
        if code is ErrorCode.none:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._meta.commit_offsets, name, offsets)
        return code

    def offsets(self, name: str) -> dict[tuple[str, int], CommittedOffset]:
        return self._meta.offsets(name)

    def delete(self, name: str) -> ErrorCode:
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.group_id_not_found
        if group.state is not State.EMPTY:
            return ErrorCode.non_empty_group
        self._meta.remove_group(name)
        del self.groups[name]
        self._held_bytes -= self._held_by.pop(name, 0)
        return ErrorCode.none

    def _is_full(self, name: str) -> bool:
        """Whether there is no room for one more group of this name."""
        return len(self.groups) >= GROUPS_MAX or self._held_bytes + len(name) > HELD_BYTES_MAX

    def _weigh(self, group: Group) -> None:
        held_bytes = group.held_bytes()
        self._held_bytes += held_bytes - self._held_by.get(group.name, 0)
        self._held_by[group.name] = held_bytes

    def _save(self, group: Group) -> None:
        if group.changed:
            self._weigh(group)
            self._meta.save_group(group.name, msgspec.msgpack.encode(group.snapshot()))
            group.changed = False

    async def run(self) -> None:
        """Lets time pass in every group until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            now_ms = self._now_ms()
            for group in list(self.groups.values()):
                if group.state is not State.EMPTY or group.has_pending:
                    group.tick(now_ms)
                    self._save(group)


def _resolver(answer: "asyncio.Future[dict[str, Any]]") -> Any:
    def resolve(body: dict[str, Any]) -> None:
        if not answer.done():
            answer.set_result(body)

    return resolve
