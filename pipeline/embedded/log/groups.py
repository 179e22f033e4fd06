"""A consumer group as a state machine: who is in it, which generation, who was given what.

Pure: time is passed in, and an answer is given by calling the `reply` that came with the question,
now or in a later call. The shell (coordinator.py) makes responses of replies, and saves `snapshot`.
"""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.membership import (
    INITIAL_DELAY_MS,
    MEMBERS_MAX,
    SESSION_MS_MAX,
    SESSION_MS_MIN,
    JoinRequest,
    Member,
    Snapshot,
    State,
    common_protocols,
    vote,
)

Reply = Callable[[dict[str, Any]], None]


class Group:
    """One group. `changed` is set when `snapshot` would differ; who saves it clears it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.changed = False
        self._instances: dict[str, str] = {}
        self._pending: dict[str, int] = {}
        self._joining: dict[str, Reply] = {}
        self._syncing: dict[str, Reply] = {}
        self._rebalance_deadline_ms = 0
        self._sync_deadline_ms = 0
        self._delay_until_ms = 0

    @property
    def has_pending(self) -> bool:
        """Whether somebody was told an id and has not come back with it yet."""
        return bool(self._pending)

    def held_bytes(self) -> int:
        """What its members brought and were given, and what it is called."""
        members = sum(member.held_bytes() for member in self.members.values())
        return len(self.name) + sum(map(len, self._pending)) + members

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.state if self.members else State.EMPTY,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            list(self.members.values()),
        )

    @classmethod
    def from_snapshot(cls, name: str, snapshot: Snapshot, now_ms: int) -> "Group":
        """A group as it was; every member gets a full session to be heard of again."""
        group = cls(name)
        group.state = snapshot.state
        group.generation = snapshot.generation
        group.protocol_type = snapshot.protocol_type
        group.protocol = snapshot.protocol
        group.leader = snapshot.leader
        group.members = {member.id: member for member in snapshot.members}
        for member in snapshot.members:
            member.deadline_ms = now_ms + member.session_ms
            if member.instance_id is not None:
                group._instances[member.instance_id] = member.id
        group._sync_deadline_ms = now_ms + group._longest_rebalance_ms()
        group._rebalance_deadline_ms = group._sync_deadline_ms
        return group

    # Joining

    def join(self, request: JoinRequest, now_ms: int, reply: Reply) -> None:
        """Ask to be in the next generation: answered when it is complete, an error at once."""
        code = self._refusal(request)
        if code is not ErrorCode.none:
            reply({"error_code": code, "member_id": request.member_id})
        elif request.member_id == "":
            self._join_unknown(request, now_ms, reply)
        elif request.member_id in self._pending:
            del self._pending[request.member_id]
            self._add(request, request.member_id, now_ms, reply)
        else:
            self._join_known(request, now_ms, reply)

    def _refusal(self, request: JoinRequest) -> ErrorCode:
        if not SESSION_MS_MIN <= request.session_ms <= SESSION_MS_MAX:
            return ErrorCode.invalid_session_timeout
        if not request.protocol_type or not request.protocols:
            return ErrorCode.inconsistent_group_protocol
        others = [m for m in self.members.values() if not m.is_same_as(request)]
        if others and not (
            request.protocol_type == self.protocol_type and common_protocols([request, *others])
        ):
            return ErrorCode.inconsistent_group_protocol
        if request.member_id:
            return self._identity_error(request.member_id, request.instance_id, allow_pending=True)
        if len(self.members) + len(self._pending) >= MEMBERS_MAX:
            return ErrorCode.group_max_size_reached
        return ErrorCode.none

    def _identity_error(
        self, member_id: str, instance_id: str | None, *, allow_pending: bool = False
    ) -> ErrorCode:
        if instance_id is not None:
            known_id = self._instances.get(instance_id)
            if known_id is not None and known_id != member_id:
                return ErrorCode.fenced_instance_id
        if member_id in self.members or (allow_pending and member_id in self._pending):
            return ErrorCode.none
        return ErrorCode.unknown_member_id

    def _join_unknown(self, request: JoinRequest, now_ms: int, reply: Reply) -> None:
        if request.instance_id is not None and request.instance_id in self._instances:
            self._replace_static(request, now_ms, reply)
        elif request.instance_id is None and request.needs_member_id_first:
            self._pending[request.new_member_id] = now_ms + request.session_ms
            reply({"error_code": ErrorCode.member_id_required, "member_id": request.new_member_id})
        else:
            self._add(request, request.new_member_id, now_ms, reply)

    def _add(self, request: JoinRequest, member_id: str, now_ms: int, reply: Reply) -> None:
        if not self.members:
            self._delay_until_ms = now_ms + INITIAL_DELAY_MS
            self.protocol_type = request.protocol_type
        self.members[member_id] = Member(
            id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_ms=request.session_ms,
            rebalance_ms=request.rebalance_ms,
            protocols=request.protocols,
        )
        if request.instance_id is not None:
            self._instances[request.instance_id] = member_id
        self._await_join(member_id, now_ms, reply)

    def _replace_static(self, request: JoinRequest, now_ms: int, reply: Reply) -> None:
        """A static member came back: it takes its place again, and its old id is fenced."""
        assert request.instance_id is not None
        old_id = self._instances[request.instance_id]
        old_leader = self.leader
        fenced = {"error_code": ErrorCode.fenced_instance_id, "member_id": old_id}
        for waiting in (self._joining.pop(old_id, None), self._syncing.pop(old_id, None)):
            if waiting is not None:
                waiting(fenced)
        member = self.members.pop(old_id)
        member.id = request.new_member_id
        self._update(member, request)
        self.members[member.id] = member
        self._instances[request.instance_id] = member.id
        if self.leader == old_id:
            self.leader = member.id
        self.changed = True
        if self.state is State.STABLE and vote(self.members.values()) == self.protocol:
            # It does not learn that it leads, so it asks for no new assignment and none is made.
            member.deadline_ms = now_ms + member.session_ms
            reply(self._joined(member, old_leader, to_leader=False))
        else:
            self._await_join(member.id, now_ms, reply)

    def _join_known(self, request: JoinRequest, now_ms: int, reply: Reply) -> None:
        member = self.members[request.member_id]
        same = member.protocols == request.protocols
        leads = member.id == self.leader
        if same and (self.state is State.COMPLETING or (self.state is State.STABLE and not leads)):
            # The answer to an earlier join was lost: it is given again.
            member.deadline_ms = now_ms + member.session_ms
            reply(self._joined(member, self.leader, to_leader=leads))
            return
        self._update(member, request)
        self._await_join(member.id, now_ms, reply)

    def _update(self, member: Member, request: JoinRequest) -> None:
        member.protocols = request.protocols
        member.session_ms = request.session_ms
        member.rebalance_ms = request.rebalance_ms
        member.client_id = request.client_id
        member.client_host = request.client_host

    def _await_join(self, member_id: str, now_ms: int, reply: Reply) -> None:
        earlier = self._joining.get(member_id)
        if earlier is not None:
            earlier({"error_code": ErrorCode.rebalance_in_progress, "member_id": member_id})
        self._joining[member_id] = reply
        if self.state is not State.PREPARING:
            self._prepare(now_ms)
        self._complete_join_if_due(now_ms)

    def _prepare(self, now_ms: int) -> None:
        self.state = State.PREPARING
        self._rebalance_deadline_ms = now_ms + self._longest_rebalance_ms()
        waiting, self._syncing = self._syncing, {}
        for member_id, reply in waiting.items():
            self._renew(member_id, now_ms)
            reply({"error_code": ErrorCode.rebalance_in_progress})

    def _longest_rebalance_ms(self) -> int:
        return max((m.rebalance_ms for m in self.members.values()), default=0)

    def _complete_join_if_due(self, now_ms: int) -> None:
        if self.state is not State.PREPARING:
            return
        if self.members and now_ms < self._delay_until_ms:
            return
        everyone = len(self._joining) == len(self.members) and not self._pending
        if not everyone and now_ms < self._rebalance_deadline_ms:
            return
        for member in list(self.members.values()):
            if member.id not in self._joining and member.instance_id is None:
                self._forget(member.id)
        self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        self.generation += 1
        self.changed = True
        if not self.members:
            self.state, self.protocol, self.leader = State.EMPTY, None, None
            return
        if self.leader not in self._joining:
            self.leader = next(iter(self._joining), next(iter(self.members)))
        self.protocol = vote(self.members.values())
        self.state = State.COMPLETING
        self._sync_deadline_ms = now_ms + self._longest_rebalance_ms()
        waiting, self._joining = self._joining, {}
        for member_id, reply in waiting.items():
            self._renew(member_id, now_ms)
            member = self.members[member_id]
            member.assignment = b""
            reply(self._joined(member, self.leader, to_leader=member_id == self.leader))

    def _joined(self, member: Member, leader: str | None, *, to_leader: bool) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.none,
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": leader,
            "member_id": member.id,
            "members": [m.shown(self.protocol) for m in self.members.values()] if to_leader else [],
        }

    # Being a member

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        assignments: dict[str, bytes],
        now_ms: int,
        reply: Reply,
    ) -> None:
        """Ask for the assignment, or give it as the leader: answered when it is given."""
        code = self.membership_error(member_id, instance_id, generation)
        if code is ErrorCode.none and self.state is State.PREPARING:
            code = ErrorCode.rebalance_in_progress
        if code is not ErrorCode.none:
            reply({"error_code": code})
            return
        self._renew(member_id, now_ms)
        if self.state is State.STABLE:
            reply(self._assigned(member_id))
            return
        self._syncing[member_id] = reply
        if member_id == self.leader:
            for member in self.members.values():
                member.assignment = assignments.get(member.id, b"")
            self.state = State.STABLE
            self.changed = True
            waiting, self._syncing = self._syncing, {}
            for waiting_id, waiting_reply in waiting.items():
                self._renew(waiting_id, now_ms)
                waiting_reply(self._assigned(waiting_id))

    def _assigned(self, member_id: str) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.none,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignment": self.members[member_id].assignment,
        }

    def membership_error(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Why this member of this generation may not speak, or none."""
        code = self._identity_error(member_id, instance_id)
        if code is ErrorCode.none and generation != self.generation:
            return ErrorCode.illegal_generation
        return code

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode:
        code = self.membership_error(member_id, instance_id, generation)
        if code is not ErrorCode.none:
            return code
        self._renew(member_id, now_ms)
        return ErrorCode.rebalance_in_progress if self.state is State.PREPARING else ErrorCode.none

    def may_commit(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode:
        """Whether it may commit offsets: a member of this generation, or anybody while empty."""
        code = self.commit_error(member_id, instance_id, generation)
        if code is ErrorCode.none and member_id in self.members:
            self._renew(member_id, now_ms)
        return code

    def commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Why it may not commit offsets, or none. Changes nothing: any thread may ask."""
        if generation < 0 and not member_id and not self.members:
            return ErrorCode.none
        code = self.membership_error(member_id, instance_id, generation)
        if code is ErrorCode.none and self.state is State.COMPLETING:
            code = ErrorCode.rebalance_in_progress
        return code

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """A member goes, by its id or, a static one, by its instance id alone."""
        if not member_id and instance_id is not None:
            member_id = self._instances.get(instance_id, "")
        if self._pending.pop(member_id, None) is not None:
            self._complete_join_if_due(now_ms)
            return ErrorCode.none
        code = self._identity_error(member_id, instance_id)
        if code is ErrorCode.none:
            self._remove(member_id, now_ms)
        return code

    def _renew(self, member_id: str, now_ms: int) -> None:
        member = self.members[member_id]
        member.deadline_ms = now_ms + member.session_ms

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)
        for waiting in (self._joining.pop(member_id, None), self._syncing.pop(member_id, None)):
            if waiting is not None:
                waiting({"error_code": ErrorCode.unknown_member_id, "member_id": member_id})
        self.changed = True

    def _remove(self, member_id: str, now_ms: int) -> None:
        self._forget(member_id)
        if self.state in {State.STABLE, State.COMPLETING}:
            self._prepare(now_ms)
        self._complete_join_if_due(now_ms)

    def tick(self, now_ms: int) -> None:
        """Let time pass: silent members leave, a rebalance goes on without who did not come."""
        for member_id in [p for p, deadline_ms in self._pending.items() if deadline_ms <= now_ms]:
            del self._pending[member_id]
        for member in list(self.members.values()):
            waits = member.id in self._joining or member.id in self._syncing
            # The removal of one may have ended a rebalance, and with it the stay of others.
            if not waits and member.deadline_ms <= now_ms and member.id in self.members:
                self._remove(member.id, now_ms)
        if self.state is State.COMPLETING and now_ms >= self._sync_deadline_ms:
            for member_id in [m for m in self.members if m not in self._syncing]:
                self._forget(member_id)
            self._prepare(now_ms)
        self._complete_join_if_due(now_ms)
