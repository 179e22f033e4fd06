"""What groups may hold together, and what becomes of them and of commits when things go wrong."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log import coordinator as module
from pipeline.embedded.log.coordinator import Coordinator
from pipeline.embedded.log.membership import JoinRequest
from pipeline.embedded.log.meta import CommittedOffset, Meta
from tests.unit.embedded_log.test_cleaner import HandClock


@pytest.fixture
def meta(tmp_path: Path) -> Iterator[Meta]:
    found = Meta(tmp_path / "meta.sqlite", sync_each_commit=False)
    yield found
    found.close()


def open_groups(meta: Meta, clock: HandClock | None = None) -> Coordinator:
    return Coordinator(meta, clock or HandClock(), lambda _topic, _number: 1)


def request(size: int, number: int = 0) -> JoinRequest:
    return JoinRequest(
        member_id="",
        new_member_id=f"m{number}",
        instance_id=None,
        client_id="c",
        client_host="h",
        session_ms=6000,
        rebalance_ms=6000,
        protocol_type="consumer",
        protocols=[("range", bytes(size))],
        needs_member_id_first=False,
    )


async def joined(groups: Coordinator, name: str, asked: JoinRequest) -> dict[str, Any] | None:
    """The answer; None for one that comes when the group is complete."""
    try:
        async with asyncio.timeout(0.01):
            return await groups.join(name, asked)
    except TimeoutError:
        return None


async def test_members_of_all_groups_hold_so_much_and_the_next_is_refused(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 10_000)
    groups = open_groups(meta)
    answers = [await joined(groups, f"g{n}", request(3000, n)) for n in range(5)]
    refused = [one["error_code"] for one in answers if one is not None]
    assert refused == [ErrorCode.group_max_size_reached] * 2
    assert await joined(groups, "another", request(10, 9)) is None

    for number in range(3):
        groups.leave(f"g{number}", f"m{number}", None)
    assert await joined(groups, "later", request(3000, 6)) is None


async def test_assignments_count_as_well(meta: Meta, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 10_000)
    groups = open_groups(meta)
    await joined(groups, "g", request(10))
    answer = await groups.sync("g", "m0", None, 1, {"m0": bytes(20_000)})
    assert answer == {"error_code": ErrorCode.group_max_size_reached}


async def test_there_are_so_many_groups_and_names_of_so_many_bytes(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 3)
    groups = open_groups(meta)
    codes = [await groups.commit(f"g{n}", "", None, -1, []) for n in range(4)]
    assert codes == [ErrorCode.none] * 3 + [ErrorCode.group_max_size_reached]
    assert groups.delete("g0") is ErrorCode.none
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 1000)
    code = await groups.commit("x" * 2000, "", None, -1, [])
    assert code is ErrorCode.group_max_size_reached
    assert await groups.commit("short", "", None, -1, []) is ErrorCode.none


def fill_disk(meta: Meta) -> None:
    """No page more from here on, as a full disk has it."""
    pages = meta._db.execute("PRAGMA page_count").fetchone()[0]
    meta._db.execute(f"PRAGMA max_page_count={pages}")


def make_room(meta: Meta) -> None:
    meta._db.execute("PRAGMA max_page_count=10000")


async def test_while_the_disk_is_full_a_rebalance_waits_and_then_goes_on(meta: Meta) -> None:
    clock = HandClock()
    groups = open_groups(meta, clock)
    waiting = asyncio.create_task(groups.join("g", request(20_000)))
    await asyncio.sleep(0)
    fill_disk(meta)
    clock.ms += 200
    for _ in range(3):
        groups.tick()
        await asyncio.sleep(0.01)
    assert not waiting.done()
    assert groups.groups["g"].changed
    make_room(meta)
    groups.tick()
    answer = await asyncio.wait_for(waiting, 5)
    assert (answer["error_code"], answer["generation_id"]) == (ErrorCode.none, 1)
    assert list(meta.groups()) == ["g"]
    groups.stop()


async def test_a_commit_that_the_disk_refuses_is_answered_so_that_it_is_tried_again(
    meta: Meta,
) -> None:
    groups = open_groups(meta)
    fill_disk(meta)
    offsets = [CommittedOffset("t", 0, 5, -1, "n" * 20_000)]
    code = await groups.commit("g", "", None, -1, offsets)
    assert code is ErrorCode.coordinator_not_available
    assert not groups.groups
    make_room(meta)
    assert await groups.commit("g", "", None, -1, offsets) is ErrorCode.none
    groups.stop()


async def test_of_commits_that_are_on_their_way_together_the_last_counts(meta: Meta) -> None:
    groups = open_groups(meta)
    for number in range(30):
        with meta._lock:
            commits = [
                asyncio.create_task(
                    groups.commit(f"g{number}", "", None, -1, [CommittedOffset("t", 0, o, -1, "")])
                )
                for o in (50, 100)
            ]
            await asyncio.sleep(0.003)
        await asyncio.gather(*commits)
        assert meta.offsets(f"g{number}")["t", 0].offset == 100
    groups.stop()


async def test_a_commit_of_a_generation_that_ends_on_its_way_is_refused(meta: Meta) -> None:
    clock = HandClock()
    groups = open_groups(meta, clock)
    waiting = asyncio.create_task(groups.join("g", request(10)))
    await asyncio.sleep(0)
    clock.ms += 200
    groups.tick()
    await waiting
    await groups.sync("g", "m0", None, 1, {"m0": b"all"})
    gate = threading.Event()
    groups._thread.submit(gate.wait, 10)
    offsets = [CommittedOffset("t", 0, 5, -1, None)]
    late = asyncio.create_task(groups.commit("g", "m0", None, 1, offsets))
    await asyncio.sleep(0.01)
    again = asyncio.create_task(
        groups.join("g", msgspec.structs.replace(request(20), member_id="m0"))
    )
    await asyncio.sleep(0)
    groups.tick()
    assert (await again)["generation_id"] == 2
    gate.set()
    assert await late is ErrorCode.illegal_generation
    assert meta.offsets("g") == {}
    groups.stop()


async def test_a_commit_does_not_bring_a_deleted_group_back(meta: Meta) -> None:
    groups = open_groups(meta)
    offsets = [CommittedOffset("t", 0, 5, -1, None)]
    await groups.commit("g", "", None, -1, offsets)
    gate = threading.Event()
    groups._thread.submit(gate.wait, 10)
    late = asyncio.create_task(groups.commit("g", "", None, -1, offsets))
    await asyncio.sleep(0.01)
    assert groups.delete("g") is ErrorCode.none
    gate.set()
    assert await late is ErrorCode.group_id_not_found
    assert meta.offsets("g") == {}
    groups.stop()


async def test_who_was_told_an_id_and_never_came_back_leaves_nothing(meta: Meta) -> None:
    clock = HandClock()
    groups = open_groups(meta, clock)
    await groups.commit("kept", "", None, -1, [CommittedOffset("t", 0, 5, -1, None)])
    held_bytes = groups._held_bytes
    for name in ("g", "kept"):
        asked = msgspec.structs.replace(request(10), needs_member_id_first=True)
        answer = await groups.join(name, asked)
        assert answer["error_code"] is ErrorCode.member_id_required
    assert groups._held_bytes > held_bytes
    clock.ms += 10_000
    groups.tick()
    assert (list(groups.groups), groups._held_bytes) == (["kept"], held_bytes)
    groups.stop()


async def test_a_join_that_is_refused_leaves_no_group(meta: Meta) -> None:
    groups = open_groups(meta)
    answer = await groups.join("g", msgspec.structs.replace(request(10), session_ms=1))
    assert answer["error_code"] is ErrorCode.invalid_session_timeout
    assert not groups.groups
    groups.stop()
