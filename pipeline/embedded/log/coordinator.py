"""The groups of the node: gives each question to its group, saves what changed, lets time pass."""

import asyncio
import logging
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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

logger = logging.getLogger(__name__)

TICK_S = 0.05
GROUPS_MAX = 20_000

Answer = dict[str, Any]
UidOf = Callable[[str, int], int | None]


class Coordinator:
    """What changed in a group is saved before the answers leave: they wait while the disk is full.

    Called by the event loop's thread; one thread of its own writes commits, in order.
    """

    def __init__(self, meta: Meta, clock: Clock, uid_of: UidOf) -> None:
        """`uid_of` tells the number of the topic that has this partition, None if there is none. It
        is called by any thread.
        """
        self._meta = meta
        self._uid_of = uid_of
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._committing: Counter[str] = Counter()
        self._answers: dict[str, list[tuple[asyncio.Future[Answer], Answer]]] = {}
        self._is_refused = False
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

    async def join(self, name: str, request: JoinRequest) -> Answer:
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
            self._drop_if_unused(group)
            return {"error_code": ErrorCode.group_max_size_reached, "member_id": request.member_id}
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        group.join(request, self._now_ms(), self._resolver(group, answer))
        self._weigh(group)
        self._save(group)
        self._drop_if_unused(group)
        return await answer

    async def sync(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: dict[str, bytes],
    ) -> Answer:
        """Waits until the leader has assigned. Never raises."""
        group = self.groups.get(name)
        if group is None:
            return {"error_code": ErrorCode.unknown_member_id}
        if self._held_bytes + sum(map(len, assignments.values())) > HELD_BYTES_MAX:
            return {"error_code": ErrorCode.group_max_size_reached}
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        group.sync(
            member_id,
            instance_id,
            generation,
            assignments=assignments,
            now_ms=self._now_ms(),
            reply=self._resolver(group, answer),
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
        self._weigh(group)
        is_saved = self._save(group)
        self._drop_if_unused(group)
        return code if is_saved else ErrorCode.coordinator_not_available

    async def commit(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: list[CommittedOffset],
    ) -> ErrorCode:
        """Offsets are durable when this returns without an error; commits are written in the order
        of the calls. What was deleted meanwhile is left out. Never raises.
        """
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
        if code is not ErrorCode.none:
            return code
        uids = [self._uid_of(one.topic, one.partition) for one in offsets]
        refusal = ErrorCode.none

        def still_valid() -> list[CommittedOffset]:
            # In the thread, inside of the transaction. A generation, and a deletion of the group or
            # of a topic, takes effect here before it asks for a transaction of its own, and is
            # answered after that one: so this is written before it, or not at all.
            nonlocal refusal
            if self.groups.get(name) is not group:
                refusal = ErrorCode.group_id_not_found
            else:
                refusal = group.commit_error(member_id, instance_id, generation)
            if refusal is not ErrorCode.none:
                return []
            return [
                one
                for one, uid in zip(offsets, uids, strict=True)
                if self._uid_of(one.topic, one.partition) == uid
            ]

        self._committing[name] += 1
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(
                self._thread, self._meta.commit_valid_offsets, name, still_valid
            )
        except sqlite3.Error as error:
            logger.warning("the offsets of group %s were not committed: %s", name, error)
            refusal = ErrorCode.coordinator_not_available
        finally:
            self._committing[name] -= 1
            if not self._committing[name]:
                del self._committing[name]
            if refusal is not ErrorCode.none:
                self._drop_if_unused(group)
        return refusal

    def offsets(self, name: str) -> dict[tuple[str, int], CommittedOffset]:
        return self._meta.offsets(name)

    def delete(self, name: str) -> ErrorCode:
        """Raises sqlite3.Error when the disk refuses; the group is then as it was."""
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.group_id_not_found
        if group.state is not State.EMPTY:
            return ErrorCode.non_empty_group
        # First of all, so that no commit that is on its way finds it.
        del self.groups[name]
        try:
            self._meta.remove_group(name)
        except sqlite3.Error:
            self.groups[name] = group
            raise
        self._answer(name)
        self._held_bytes -= self._held_by.pop(name, 0)
        return ErrorCode.none

    def _drop_if_unused(self, group: Group) -> None:
        """Forget a group that nobody was ever in and that has committed nothing."""
        if (
            group.generation
            or group.members
            or group.has_pending
            or group.changed
            or group.name in self._committing
            or self.groups.get(group.name) is not group
        ):
            return
        try:
            if self._meta.offsets(group.name):
                return
        except sqlite3.Error:
            return
        del self.groups[group.name]
        self._held_bytes -= self._held_by.pop(group.name, 0)

    def _is_full(self, name: str) -> bool:
        """Whether there is no room for one more group of this name."""
        return len(self.groups) >= GROUPS_MAX or self._held_bytes + len(name) > HELD_BYTES_MAX

    def _weigh(self, group: Group) -> None:
        held_bytes = group.held_bytes()
        self._held_bytes += held_bytes - self._held_by.get(group.name, 0)
        self._held_by[group.name] = held_bytes

    def _save(self, group: Group) -> bool:
        """Whether all that changed in the group is saved, and its answers have left. If not, the
        next tick tries again.
        """
        if group.changed:
            self._weigh(group)
            try:
                self._meta.save_group(group.name, msgspec.msgpack.encode(group.snapshot()))
            except sqlite3.Error as error:
                if not self._is_refused:
                    logger.warning("group %s cannot be saved, and waits: %s", group.name, error)
                self._is_refused = True
                return False
            group.changed = self._is_refused = False
        self._answer(group.name)
        return True

    def _answer(self, name: str) -> None:
        for answer, body in self._answers.pop(name, ()):
            if not answer.done():
                answer.set_result(body)

    def _resolver(self, group: Group, answer: asyncio.Future[Answer]) -> Callable[[Answer], None]:
        def resolve(body: Answer) -> None:
            self._answers.setdefault(group.name, []).append((answer, body))

        return resolve

    async def run(self) -> None:
        """Lets time pass in every group until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Lets the time pass that has passed, and saves what the disk refused before."""
        now_ms = self._now_ms()
        for group in list(self.groups.values()):
            had_pending = group.has_pending
            if group.state is not State.EMPTY or had_pending or group.changed:
                group.tick(now_ms)
                self._save(group)
            if had_pending:
                self._weigh(group)
                self._drop_if_unused(group)

    def stop(self) -> None:
        """Blocks until commits that are on their way are written."""
        self._thread.shutdown()
