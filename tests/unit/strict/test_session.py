"""A decider that ends in order leaves nothing behind that nobody can read."""

import asyncio
from typing import Any, cast

import pytest

from pipeline.errors import TryAgainError
from pipeline.metrics.meter import UNMEASURED
from pipeline.strict import session as session_module
from pipeline.strict.session import Rebalances, Session
from pipeline.strict.values import Value, ValueFlusher
from schemas.settings import load_settings
from tests.kit.clocks import ManualClock
from tests.unit.strict.test_values import Stored

VALUE = Value("stock:shoes", 0, 7, 3, 1_700_000_000_000)


@pytest.fixture
def stored() -> Stored:
    return Stored()


async def ended(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is stopped with a value that waits, and its decider's forgetting after it."""
    values = ValueFlusher(load_settings(), ManualClock(), UNMEASURED)
    monkeypatch.setattr(values, "_inserter", stored)
    values.own({0})
    values.add([VALUE])
    nobody = cast("Any", None)
    session = Session(
        nobody, nobody, nobody, 1, values=values, clock=ManualClock(), meter=UNMEASURED
    )
    stopped = asyncio.Event()
    stopped.set()
    await session.run(Rebalances(), stopped)
    values.own(())


async def test_what_was_decided_last_is_flushed_before_it_is_forgotten(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(stored, monkeypatch)
    assert [table for table, _ in stored.rows] == ["strict_values", "strict_flushes"]
    assert stored.rows[0][1][0]["value"] == 7


async def test_a_clickhouse_that_is_away_or_hangs_keeps_no_decider_from_ending(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.away = "tally.strict_values"
    await ended(stored, monkeypatch)

    async def hangs() -> int:
        await asyncio.Event().wait()
        raise TryAgainError("never")

    monkeypatch.setattr(session_module, "LAST_FLUSH_S_MAX", 0.02)
    monkeypatch.setattr(stored, "now_ms", hangs)
    await asyncio.wait_for(ended(stored, monkeypatch), 5)
    assert stored.rows == []
