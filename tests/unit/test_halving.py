"""Rows that are refused are found among others, and nothing is blamed for an outage."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from pipeline.errors import OperatorError, TryAgainError
from pipeline.writes.halving import ROWS_REFUSED_MAX, BlockRefusedError, Halving

CONSTRAINT, TOO_MANY_PARTS, MEMORY, SAME_QUERY_RUNS = 469, 252, 241, 216


class Table:
    """A table that refuses whole blocks, as ClickHouse does, by a rule of the test's own."""

    def __init__(self, refuses: Callable[[list[int]], int | None]) -> None:
        self.refuses = refuses
        self.stored: set[int] = set()
        self.inserts = 0

    async def insert(self, rows: pa.Table) -> None:
        self.inserts += 1
        values = rows["value"].to_pylist()
        if (code := self.refuses(values)) is not None:
            raise BlockRefusedError("t", f"not {values[:3]}", code)
        self.stored.update(values)

    async def write(self, size: int, taken: int | None = None) -> dict[int, str]:
        block = rows(*range(size))
        with pytest.raises(BlockRefusedError) as refusal:
            await self.insert(block)
        control = None if taken is None else rows(taken)
        return await Halving(block, self.insert, control).run(refusal.value)


def rows(*values: int) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.int64())})


def poison(*bad: int) -> Callable[[list[int]], int | None]:
    return lambda values: CONSTRAINT if set(bad) & set(values) else None


@pytest.mark.parametrize("size", [2, 3, 64, 1000])
@pytest.mark.parametrize("place", [0, 0.5, 1])
async def test_one_refused_row_is_found_wherever_it_is(size: int, place: float) -> None:
    bad = int(place * (size - 1))
    table = Table(poison(bad))
    assert await table.write(size) == {bad: f"not [{bad}]"}
    assert table.stored == set(range(size)) - {bad}
    assert table.inserts <= 2 * size.bit_length() + 6


async def test_all_refused_rows_are_found_and_all_others_are_written() -> None:
    bad = {3, 4, 77, 500, 501, 502, 999}
    table = Table(poison(*bad))
    assert set(await table.write(1000)) == bad
    assert table.stored == set(range(1000)) - bad


async def test_a_table_that_takes_nothing_is_an_outage() -> None:
    table = Table(lambda _: CONSTRAINT)
    with pytest.raises(OperatorError, match="takes nothing"):
        await table.write(50)
    with pytest.raises(OperatorError, match="takes nothing"):
        await table.write(50, taken=-1)


async def test_a_lonely_refused_row_is_blamed_only_if_the_table_takes_another() -> None:
    table = Table(poison(0))
    with pytest.raises(OperatorError, match="takes nothing"):
        await table.write(1)
    assert await table.write(1, taken=-1) == {0: "not [0]"}


async def test_a_lonely_refused_row_of_a_table_never_written_is_blamed_if_another_table_takes() -> (
    None
):
    table, other = Table(poison(0)), Table(lambda _: None)

    async def write(block: pa.Table) -> dict[int, str]:
        with pytest.raises(BlockRefusedError) as refusal:
            await table.insert(block)
        alive = partial(other.insert, rows(7))
        return await Halving(block, table.insert, None, alive).run(refusal.value)

    assert await write(rows(0)) == {0: "not [0]"}
    assert other.inserts == 2
    # Several that are refused, all of them, are no rows: the table takes nothing.
    table.refuses = lambda _: CONSTRAINT
    with pytest.raises(OperatorError, match="takes nothing"):
        await write(rows(0, 1))
    other.refuses = lambda _: CONSTRAINT
    with pytest.raises(BlockRefusedError):
        await write(rows(0))


async def test_more_refused_rows_than_the_bound_are_an_outage() -> None:
    table = Table(poison(*range(ROWS_REFUSED_MAX)))
    assert len(await table.write(1000)) == ROWS_REFUSED_MAX
    table = Table(poison(*range(ROWS_REFUSED_MAX + 1)))
    with pytest.raises(OperatorError, match=f"more than {ROWS_REFUSED_MAX} rows"):
        await table.write(1000)


async def test_a_table_that_stops_taking_anything_in_the_middle_costs_no_row() -> None:
    table = Table(lambda _: None)
    table.refuses = lambda values: CONSTRAINT if table.inserts > 4 or 7 in values else None
    with pytest.raises(OperatorError, match="takes nothing"):
        await table.write(16)


async def test_a_row_that_is_taken_at_the_second_attempt_is_not_blamed() -> None:
    attempts = []

    def refuses(values: list[int]) -> int | None:
        attempts.append(values)
        return CONSTRAINT if 7 in values and attempts.count([7]) < 2 else None

    table = Table(refuses)
    assert await table.write(16) == {}
    assert table.stored == set(range(16))


@pytest.mark.parametrize("code", [TOO_MANY_PARTS, SAME_QUERY_RUNS])
async def test_a_code_that_is_never_about_rows_ends_the_search_at_once(code: int) -> None:
    table = Table(poison(3))
    table.refuses = lambda values: code if table.inserts > 1 else poison(3)(values)
    with pytest.raises(BlockRefusedError) as refusal:
        await table.write(100)
    assert (refusal.value.code, table.inserts) == (code, 2)


async def test_too_little_memory_makes_smaller_blocks_and_blames_no_row() -> None:
    table = Table(lambda values: MEMORY if len(values) > 10 else None)
    assert await table.write(100) == {}
    assert table.stored == set(range(100))
    table = Table(lambda values: MEMORY if 3 in values else None)
    with pytest.raises(BlockRefusedError):
        await table.write(100)


async def test_a_server_that_goes_away_in_the_middle_ends_the_search() -> None:
    def refuses(values: list[int]) -> int | None:
        if len(values) < 10:
            raise TryAgainError("away")
        return CONSTRAINT

    with pytest.raises(TryAgainError):
        await Table(refuses).write(100)
