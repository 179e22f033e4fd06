"""A shard that is not counted on is told of, and the error goes on its way."""

import pytest

from pipeline.errors import ShardRefusedError, TryAgainError
from pipeline.writes.refusals import telling
from tests.kit.clocks import ManualClock


class Told:
    """Refusals that are kept in a list, or cannot be written."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.finished = False
        self.rows: list[tuple[int, str, int]] = []

    async def write_refusal(self, shard: int, reason: str, refused_at_ms: int) -> None:
        if self.away:
            raise TryAgainError("ClickHouse is away")
        self.rows.append((shard, reason, refused_at_ms))

    async def finish(self) -> None:
        assert self.rows == [], "what was counted is kept before the refusal is told"
        self.finished = True


async def refuse(told: Told) -> None:
    with pytest.raises(ShardRefusedError):
        async with telling(told, ManualClock(2.0), told.finish):
            raise ShardRefusedError(3, "a gap")
    assert told.finished


async def test_a_refusal_is_written_down() -> None:
    told = Told()
    await refuse(told)
    assert told.rows == [(3, "a gap", 2000)]


async def test_a_refusal_that_cannot_be_written_down_is_still_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await refuse(Told(away=True))
    assert "ClickHouse is away" in caplog.text


async def test_other_errors_are_not_written_down() -> None:
    told = Told()
    with pytest.raises(TryAgainError):
        async with telling(told, ManualClock(), told.finish):
            raise TryAgainError("later")
    assert (told.rows, told.finished) == ([], False)
