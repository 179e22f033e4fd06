"""Values of strict counters on their way to ClickHouse, and when they are said to be there."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import TryAgainError
from pipeline.metrics.meter import UNMEASURED
from pipeline.strict.values import POSITION_INTERVAL_S, Value, ValueFlusher
from schemas.settings import load_settings
from tests.kit.clocks import ManualClock

NOW_MS = 1_700_000_000_000


class Stored:
    """Stands for ClickHouse, whose clock goes by itself. `away` is what it does not take."""

    def __init__(self) -> None:
        self.now = NOW_MS
        self.asked = 0
        self.away = ""
        self.rows: list[tuple[str, list[dict[str, Any]]]] = []
        self.on_asked: Callable[[], None] = lambda: None

    async def now_ms(self) -> int:
        self.asked += 1
        found = self.now
        self.on_asked()
        return found

    async def insert(self, table: str, rows: pa.Table) -> None:
        if table == self.away:
            raise TryAgainError("away")
        self.rows.append((table.removeprefix("tally."), rows.to_pylist()))

    def flushed(self) -> dict[int, int]:
        """When each shard was flushed last."""
        return {
            row["shard"]: round(row["flushed_at"].timestamp() * 1000)
            for table, rows in self.rows
            if table == "strict_flushes"
            for row in rows
        }


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def flusher(clock: ManualClock, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> ValueFlusher:
    found = ValueFlusher(load_settings(), clock, UNMEASURED)
    monkeypatch.setattr(found, "_inserter", stored)
    found.own({0, 1})
    return found


def value(through: int, shard: int = 0) -> Value:
    return Value(f"stock:{shard}", shard, 10 - through, through, NOW_MS)


async def test_what_was_flushed_is_dated_by_clickhouse_and_not_by_the_worker(
    clock: ManualClock, stored: Stored, flusher: ValueFlusher
) -> None:
    clock.advance(30 * 3600)
    flusher.add([value(1)])
    await flusher.flush()
    assert [table for table, _ in stored.rows] == ["strict_values", "strict_flushes"]
    assert stored.flushed() == {0: NOW_MS, 1: NOW_MS}


async def test_what_is_decided_after_the_time_was_asked_for_is_not_dated_before_it(
    stored: Stored, flusher: ValueFlusher
) -> None:
    def decide_and_take_over() -> None:
        flusher.own({1, 2})
        flusher.add([value(7, shard=2)])

    stored.on_asked = decide_and_take_over
    flusher.add([value(1), value(2, shard=1)])
    await flusher.flush()
    [(_, values), (_, moments)] = stored.rows
    assert {row["shard"] for row in values} == {1, 2}, "what waits of others is forgotten"
    assert {row["shard"] for row in moments} == {1, 2}


async def test_nothing_is_asked_while_nothing_was_decided_and_none_is_due(
    clock: ManualClock, stored: Stored, flusher: ValueFlusher
) -> None:
    await flusher.flush()
    for _ in range(3):
        await flusher.flush()
    assert stored.asked == 1
    clock.advance(POSITION_INTERVAL_S)
    stored.now += 9
    await flusher.flush()
    assert stored.asked == 2
    assert stored.flushed() == {0: NOW_MS + 9, 1: NOW_MS + 9}
    flusher.own(())
    await flusher.flush()
    assert stored.asked == 2


async def test_what_clickhouse_did_not_take_waits_for_it_and_is_not_dated(
    stored: Stored, flusher: ValueFlusher
) -> None:
    flusher.add([value(1), value(1, shard=1)])
    stored.away = "tally.strict_values"
    with pytest.raises(TryAgainError):
        await flusher.flush()
    assert stored.rows == []
    flusher.add([value(2)])
    stored.away = ""
    await flusher.flush()
    [(_, values), _] = stored.rows
    assert {row["counter"]: row["through"] for row in values} == {"stock:0": 2, "stock:1": 1}
