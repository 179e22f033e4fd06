"""What groups of all names may hold together, and what is answered at the bound."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log import coordinator as module
from pipeline.embedded.log.coordinator import Coordinator
from pipeline.embedded.log.membership import JoinRequest
from pipeline.embedded.log.meta import Meta
from tests.unit.embedded_log.test_cleaner import HandClock


@pytest.fixture
def meta(tmp_path: Path) -> Iterator[Meta]:
    found = Meta(tmp_path / "meta.sqlite", sync_each_commit=False)
    yield found
    found.close()


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
    groups = Coordinator(meta, HandClock())
    answers = [await joined(groups, f"g{n}", request(3000, n)) for n in range(5)]
    refused = [one["error_code"] for one in answers if one is not None]
    assert refused == [ErrorCode.group_max_size_reached] * 2
    assert await joined(groups, "another", request(10, 9)) is None

    for number in range(3):
        groups.leave(f"g{number}", f"m{number}", None)
    assert await joined(groups, "later", request(3000, 6)) is None


async def test_assignments_count_as_well(meta: Meta, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 10_000)
    groups = Coordinator(meta, HandClock())
    await joined(groups, "g", request(10))
    answer = await groups.sync("g", "m0", None, 1, {"m0": bytes(20_000)})
    assert answer == {"error_code": ErrorCode.group_max_size_reached}


async def test_there_are_so_many_groups_and_names_of_so_many_bytes(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 3)
    groups = Coordinator(meta, HandClock())
    codes = [await groups.commit(f"g{n}", "", None, -1, []) for n in range(4)]
    assert codes == [ErrorCode.none] * 3 + [ErrorCode.group_max_size_reached]
    assert groups.delete("g0") is ErrorCode.none
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 1000)
    code = await groups.commit("x" * 2000, "", None, -1, [])
    assert code is ErrorCode.group_max_size_reached
    assert await groups.commit("short", "", None, -1, []) is ErrorCode.none
