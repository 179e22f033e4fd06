"""Each bound of the ClickHouse door is reached: what happens there is as docs/limits.md says."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import BodyPartReader

from pipeline.embedded.clickhouse import patience
from pipeline.embedded.clickhouse import sessions as sessions_module
from pipeline.embedded.clickhouse import spool as spool_module
from pipeline.embedded.clickhouse.blocks import READ_BLOCK_BYTES_MAX, unblocked
from pipeline.embedded.clickhouse.engine import Engine
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.form import _content
from pipeline.embedded.clickhouse.reply import Reply
from pipeline.embedded.clickhouse.request import MAX_QUERY_SIZE_BYTES, SessionWish
from pipeline.embedded.clickhouse.sessions import Sessions
from pipeline.embedded.clickhouse.spool import Spool
from pipeline.embedded.clickhouse.statement import parse
from tests.kit.clocks import ManualClock


class Connections:
    """Stands for an engine, of which sessions want connections alone."""

    def __init__(self) -> None:
        self.open = 0

    def connect(self) -> Any:
        self.open += 1
        return self

    def close(self) -> None:
        self.open -= 1


def test_of_too_many_sessions_the_one_idle_longest_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "SESSIONS_MAX", 2)
    engine = Connections()
    sessions = Sessions(cast("Engine", engine), ManualClock())
    first, second = (sessions.take(SessionWish(name, 60, False, False)) for name in "ab")
    with pytest.raises(ClickHouseError, match="Too many sessions"):
        sessions.take(SessionWish("c", 60, False, False))
    sessions.give_back(second, close=False, is_clean=True)
    sessions.give_back(first, close=False, is_clean=True)
    sessions.take(SessionWish("c", 60, False, False))
    assert (len(sessions), engine.open) == (2, 2)
    with pytest.raises(ClickHouseError, match="not found"):
        sessions.take(SessionWish("b", 60, True, False))


class Part:
    """A part of a form that never ends."""

    async def read_chunk(self) -> bytes:
        return bytes(1000)


async def test_a_form_is_refused_before_more_than_there_is_room_for_is_read() -> None:
    with pytest.raises(ClickHouseError, match="Form is larger"):
        await _content(cast("BodyPartReader", Part()), 5000)


async def test_who_is_silent_in_the_midst_of_a_query_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "SILENCE_S_MAX", 0.01)
    with pytest.raises(ClickHouseError, match=r"did not come within 0\.01 s") as refused:
        await patience.next_of(asyncio.Event().wait())
    assert refused.value.status == 503
    assert await patience.next_of(asyncio.sleep(0, "came")) == "came"


def test_a_body_has_a_size(tmp_path: Path) -> None:
    with Spool(tmp_path, 1000) as spool:
        spool.write(bytes(1000))
        with pytest.raises(ClickHouseError, match="larger than 1000 bytes"):
            spool.write(b"x")


def test_of_a_body_only_so_much_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "MEMORY_BYTES_MAX", 1000)
    with Spool(tmp_path, 10_000) as spool:
        for rolled in (False, True):
            spool.write(bytes(600))
            assert vars(spool._file)["_rolled"] is rolled


def test_a_compressed_block_has_a_size() -> None:
    head = bytes(16) + b"\x82" + (20).to_bytes(4, "little")
    with pytest.raises(ClickHouseError, match="Wrong size"):
        list(unblocked([head + (READ_BLOCK_BYTES_MAX + 1).to_bytes(4, "little") + bytes(20)]))


def test_a_query_has_a_size() -> None:
    text = b"SELECT '" + b"x" * MAX_QUERY_SIZE_BYTES + b"'"
    with pytest.raises(ClickHouseError, match="Max query size exceeded"):
        parse(text, MAX_QUERY_SIZE_BYTES)


async def test_who_takes_nothing_of_an_answer_any_more_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thirty-two of them, and no insert would have a place."""
    monkeypatch.setattr(patience, "TAKEN_S_MAX", 0.02)
    aborted: list[bool] = []
    transport = SimpleNamespace(abort=lambda: aborted.append(True))
    execution = SimpleNamespace(request=SimpleNamespace(query_id="q", accepted_encodings=()))
    reply = Reply(
        cast("Any", SimpleNamespace(transport=transport)), cast("Any", execution), "26.9", "UTC"
    )

    class Stalled:
        async def write(self, _piece: bytes) -> None:
            await asyncio.Event().wait()

    with pytest.raises(ConnectionResetError, match="nobody takes"):
        await reply._write(cast("Any", Stalled()), b"piece")
    assert (aborted, reply.is_cut, reply.sent_bytes) == ([True], True, 0)
