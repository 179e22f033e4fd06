from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from pipeline.embedded.log.groups import Group
from pipeline.embedded.log.membership import INITIAL_DELAY_MS, JoinRequest, Snapshot, State

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Table:
    """A group, a hand-moved clock, and the answers it gave, by member."""

    def __init__(self, group: Group | None = None) -> None:
        self.group = group or Group("g")
        self.now_ms = 1_000_000
        self.joined: dict[str, dict[str, Any]] = {}
        self.synced: dict[str, dict[str, Any]] = {}
        self._made = 0

    def join(
        self,
        member_id: str = "",
        *,
        who: str | None = None,
        instance_id: str | None = None,
        protocols: list[tuple[str, bytes]] | None = None,
        required: bool = False,
        protocol_type: str = "consumer",
    ) -> str:
        """Asks to join; the id under which the answer is found in `joined`."""
        self._made += 1
        new_id = who or f"m{self._made}"
        request = JoinRequest(
            member_id=member_id,
            new_member_id=new_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/host",
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            protocol_type=protocol_type,
            protocols=protocols or [("range", b"meta")],
            needs_member_id_first=required,
        )
        name = member_id or new_id
        self.joined.pop(name, None)
        self.group.join(request, self.now_ms, lambda body: self.joined.update({name: body}))
        return name

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        generation: int | None = None,
        instance_id: str | None = None,
    ) -> None:
        self.synced.pop(member_id, None)
        self.group.sync(
            member_id,
            instance_id,
            self.group.generation if generation is None else generation,
            assignments=assignments or {},
            now_ms=self.now_ms,
            reply=lambda body: self.synced.update({member_id: body}),
        )

    def heartbeat(self, member_id: str, generation: int | None = None) -> ErrorCode:
        chosen = self.group.generation if generation is None else generation
        return self.group.heartbeat(member_id, None, chosen, self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.group.tick(self.now_ms)

    def state(self) -> State:
        return self.group.state


def two_members() -> tuple[Table, str, str]:
    table = Table()
    first, second = table.join(), table.join()
    table.wait(INITIAL_DELAY_MS)
    table.sync(second)
    table.sync(first, {first: b"one", second: b"two"})
    return table, first, second


def test_members_that_come_together_share_the_first_generation() -> None:
    table, first, second = two_members()
    assert table.joined[first]["generation_id"] == table.joined[second]["generation_id"] == 1
    assert table.joined[first]["leader"] == table.joined[second]["leader"] == first
    assert [m["member_id"] for m in table.joined[first]["members"]] == [first, second]
    assert table.joined[second]["members"] == []
    assert table.synced[first]["assignment"] == b"one"
    assert table.synced[second]["assignment"] == b"two"


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    table = Table()
    first, second = table.join(), table.join()
    table.wait(INITIAL_DELAY_MS)
    table.sync(second)
    assert second not in table.synced
    table.sync(first, {second: b"x"})
    assert table.synced[second]["assignment"] == b"x"


def test_a_new_member_is_told_its_id_first() -> None:
    table = Table()
    name = table.join(required=True)
    assert table.joined[name] == {"error_code": ErrorCode.member_id_required, "member_id": name}
    table.join(member_id=name, required=True)
    table.wait(INITIAL_DELAY_MS)
    assert table.joined[name]["error_code"] is ErrorCode.none


def test_a_rebalance_waits_for_those_who_were_told_an_id() -> None:
    table, first, second = two_members()
    third = table.join(required=True)
    table.join(member_id=first, protocols=[("range", b"new")])
    table.join(member_id=second)
    assert first not in table.joined
    table.join(member_id=third, required=True)
    assert len(table.joined[first]["members"]) == 3


def test_an_id_nobody_comes_back_with_is_forgotten() -> None:
    table, first, second = two_members()
    table.join(required=True)
    table.join(member_id=first, protocols=[("range", b"new")])
    table.join(member_id=second)
    table.wait(SESSION_MS)
    assert len(table.joined[first]["members"]) == 2


def test_members_are_told_of_a_rebalance_by_their_heartbeats() -> None:
    table, first, second = two_members()
    table.join()
    assert table.heartbeat(first) is ErrorCode.rebalance_in_progress
    table.sync(second)
    assert table.synced[second]["error_code"] is ErrorCode.rebalance_in_progress


def test_a_rebalance_goes_on_without_a_member_that_does_not_come() -> None:
    table, first, second = two_members()
    third = table.join()
    table.join(member_id=first)
    for _ in range(REBALANCE_MS // 5000 - 1):
        table.wait(5000)
        table.heartbeat(second)
        assert third not in table.joined
    table.wait(5000)
    assert set(table.group.members) == {first, third}
    assert table.joined[third]["generation_id"] == 2


def test_a_silent_member_leaves_after_its_session() -> None:
    table, first, second = two_members()
    table.wait(SESSION_MS - 1)
    assert table.heartbeat(first) is ErrorCode.none
    table.wait(1)
    assert second not in table.group.members
    assert table.heartbeat(second) is ErrorCode.unknown_member_id
    assert table.heartbeat(first) is ErrorCode.rebalance_in_progress


def test_members_that_wait_to_join_are_not_expired() -> None:
    table, first, second = two_members()
    third = table.join()
    for _ in range(3):
        table.wait(SESSION_MS - 1)
        table.heartbeat(first)
        table.heartbeat(second)
    assert third in table.group.members


def test_a_member_that_does_not_sync_in_time_is_dropped() -> None:
    table = Table()
    first, second = table.join(), table.join()
    table.wait(INITIAL_DELAY_MS)
    table.sync(second)
    for _ in range(REBALANCE_MS // 5000):
        table.wait(5000)
        if first in table.group.members:
            table.heartbeat(first)
    assert first not in table.group.members
    assert table.synced[second]["error_code"] is ErrorCode.rebalance_in_progress


def test_a_member_of_an_old_generation_is_refused() -> None:
    table, first, second = two_members()
    table.join(member_id=first, protocols=[("range", b"new")])
    table.join(member_id=second)
    table.sync(first, {first: b"1", second: b"2"})
    assert table.heartbeat(second, generation=1) is ErrorCode.illegal_generation
    assert table.group.may_commit(second, None, 1, table.now_ms) is ErrorCode.illegal_generation
    assert table.group.may_commit(second, None, 2, table.now_ms) is ErrorCode.none


def test_offsets_may_be_committed_while_a_rebalance_is_prepared_but_not_while_it_completes() -> (
    None
):
    table, first, second = two_members()
    table.join(member_id=first, protocols=[("range", b"new")])
    assert table.group.may_commit(second, None, 1, table.now_ms) is ErrorCode.none
    table.join(member_id=second)
    code = table.group.may_commit(second, None, 2, table.now_ms)
    assert code is ErrorCode.rebalance_in_progress


def test_anybody_commits_to_an_empty_group_and_strangers_not_to_a_full_one() -> None:
    assert Group("g").may_commit("", None, -1, 0) is ErrorCode.none
    table, _, _ = two_members()
    code = table.group.may_commit("", None, -1, table.now_ms)
    assert code is ErrorCode.unknown_member_id


def test_the_last_to_leave_empties_the_group() -> None:
    table, first, second = two_members()
    assert table.group.leave(first, None, table.now_ms) is ErrorCode.none
    assert table.group.leave(second, None, table.now_ms) is ErrorCode.none
    assert table.state() is State.EMPTY
    assert table.group.generation == 2
    assert table.group.leave(second, None, table.now_ms) is ErrorCode.unknown_member_id


def test_several_rebalances_in_a_row_each_get_a_generation() -> None:
    """As cooperative members do it: give up partitions, join again, take new ones."""
    table, first, second = two_members()
    for expected in (2, 3, 4):
        owned = [("cooperative", b"owned-%d" % expected), ("range", b"meta")]
        table.join(member_id=first, protocols=owned)
        table.join(member_id=second, protocols=owned)
        table.sync(second)
        table.sync(first, {first: b"1", second: b"2"})
        assert table.group.generation == expected
        assert table.synced[second]["assignment"] == b"2"
        assert table.group.protocol == "cooperative"


def test_a_lost_answer_is_given_again() -> None:
    table, first, second = two_members()
    table.join(member_id=second)
    assert table.joined[second]["generation_id"] == 1
    assert table.state() is State.STABLE
    table.sync(second)
    assert table.synced[second]["assignment"] == b"two"
    table.join(member_id=first)
    assert table.state() is State.PREPARING


def test_members_without_a_common_protocol_are_refused() -> None:
    table, _, _ = two_members()
    for other in (
        table.join(protocols=[("sticky", b"")]),
        table.join(protocol_type="connect"),
    ):
        assert table.joined[other]["error_code"] is ErrorCode.inconsistent_group_protocol


def test_the_protocol_most_members_prefer_is_chosen() -> None:
    table = Table()
    both = [("range", b"r"), ("sticky", b"s")]
    first = table.join(protocols=both)
    table.join(protocols=both[::-1])
    table.join(protocols=both[::-1])
    table.wait(INITIAL_DELAY_MS)
    assert table.joined[first]["protocol_name"] == "sticky"
    assert table.joined[first]["members"][0]["metadata"] == b"s"


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    table = Table()
    first = table.join(instance_id="i1", who="first")
    second = table.join(instance_id="i2", who="second")
    table.wait(INITIAL_DELAY_MS)
    table.sync(second, instance_id="i2")
    table.sync(first, {first: b"one", second: b"two"}, instance_id="i1")
    for old, instance_id, given in ((second, "i2", b"two"), (first, "i1", b"one")):
        back = table.join(instance_id=instance_id)
        assert table.joined[back]["generation_id"] == 1
        assert table.joined[back]["leader"] != back
        assert table.state() is State.STABLE
        table.sync(back, instance_id=instance_id)
        assert table.synced[back]["assignment"] == given
        code = table.group.heartbeat(old, instance_id, 1, table.now_ms)
        assert code is ErrorCode.fenced_instance_id


def test_a_second_member_under_the_same_instance_id_fences_the_first_while_it_waits() -> None:
    table = Table()
    first = table.join(instance_id="i", who="first")
    second = table.join(instance_id="i", who="second")
    assert table.joined[first]["error_code"] is ErrorCode.fenced_instance_id
    table.wait(INITIAL_DELAY_MS)
    assert table.joined[second]["generation_id"] == 1


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends() -> None:
    table = Table()
    static = table.join(instance_id="i", who="static")
    other = table.join()
    table.wait(INITIAL_DELAY_MS)
    table.sync(other)
    table.sync(static, {static: b"1", other: b"2"}, instance_id="i")
    table.wait(SESSION_MS - 1)
    assert static in table.group.members
    table.wait(1)
    assert static not in table.group.members


def test_a_static_member_leaves_by_its_instance_id_alone() -> None:
    table = Table()
    table.join(instance_id="i")
    table.wait(INITIAL_DELAY_MS)
    assert table.group.leave("", "i", table.now_ms) is ErrorCode.none
    assert not table.group.members


def restarted(table: Table) -> Table:
    """The group as another process finds it."""
    state = msgspec.msgpack.encode(table.group.snapshot())
    snapshot = msgspec.msgpack.decode(state, type=Snapshot)
    return Table(Group.from_snapshot("g", snapshot, 1_000_000))


def test_members_go_on_after_a_restart() -> None:
    table, first, second = two_members()
    again = restarted(table)
    assert again.heartbeat(first, generation=1) is ErrorCode.none
    again.sync(second, generation=1)
    assert again.synced[second]["assignment"] == b"two"
    again.wait(SESSION_MS)
    assert not again.group.members


def test_a_generation_is_never_given_twice_across_a_restart() -> None:
    table, first, second = two_members()
    table.join(member_id=first, protocols=[("range", b"new")])
    table.join(member_id=second)
    assert table.group.changed
    again = restarted(table)
    assert again.state() is State.COMPLETING
    again.sync(second)
    again.sync(first, {first: b"1", second: b"2"})
    assert again.synced[second]["assignment"] == b"2"
    assert again.group.generation == 2


def test_a_rebalance_that_was_being_prepared_goes_on_after_a_restart() -> None:
    table, first, second = two_members()
    table.group.leave(second, None, table.now_ms)
    again = restarted(table)
    assert again.heartbeat(first, generation=1) is ErrorCode.rebalance_in_progress
    again.join(member_id=first)
    assert again.joined[first]["generation_id"] == 2


def test_a_silly_session_is_refused() -> None:
    table = Table()
    request = JoinRequest("", "m", None, "c", "/h", 1, 1, "consumer", [("range", b"")], False)
    answers: list[dict[str, Any]] = []
    table.group.join(request, 0, answers.append)
    assert answers[0]["error_code"] is ErrorCode.invalid_session_timeout


def test_members_that_fall_silent_together_leave_together() -> None:
    table, first, second = two_members()
    third = table.join()
    table.wait(REBALANCE_MS)
    assert set(table.group.members) == {third}
    assert table.joined[third]["generation_id"] == 2
    assert table.heartbeat(first) is table.heartbeat(second) is ErrorCode.unknown_member_id


def test_a_group_left_as_soon_as_it_was_joined_is_empty() -> None:
    table = Table()
    name = table.join()
    table.group.leave(name, None, table.now_ms)
    assert table.joined[name]["error_code"] is ErrorCode.unknown_member_id
    assert table.state() is State.EMPTY
