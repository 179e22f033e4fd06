"""The producer refuses what the pipeline would, with the same words."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInputError
from pipeline.producer.checks import check_columns, check_increment

NOW_MS = 1_700_000_000_123


def checked(columns: Any, rows_max: int = 1000) -> Any:
    return pa.concat_tables(check_columns(columns, NOW_MS, rows_max)).to_pylist()


def test_what_is_left_out_is_the_default() -> None:
    assert checked({"counter": ["likes:a"]}) == [
        {
            "counter": "likes:a",
            "delta": 1,
            "at": NOW_MS,
            "member": None,
            "region": "",
            "id": None,
        }
    ]


def test_columns_of_all_sorts() -> None:
    columns = {
        "counter": pa.array(["likes:a", "likes:a"]).dictionary_encode(),
        "delta": np.array([2, -3], np.int32),
        "at": ["2026-01-01T00:00:00Z", None],
        "member": np.array(["ann", "bob"]),
        "region": [None, "eu"],
        "id": pa.array(["x", None], pa.large_string()),
    }

    first, second = checked(columns)

    assert (first["delta"], first["at"], first["member"]) == (2, 1_767_225_600_000, "ann")
    assert (first["region"], first["id"]) == ("", "x")
    assert (second["delta"], second["at"], second["region"]) == (-3, NOW_MS, "eu")
    assert checked(pa.table(columns)) == checked(columns)
    assert checked(pa.RecordBatch.from_pydict(columns)) == checked(columns)


def test_pieces_keep_the_rows_in_order() -> None:
    columns = {"counter": [f"likes:{n}" for n in range(10)]}

    pieces = check_columns(columns, NOW_MS, 4)

    assert [piece.num_rows for piece in pieces] == [4, 4, 2]
    assert pa.concat_tables(pieces)["counter"].to_pylist() == columns["counter"]


def test_bad_rows_are_named_and_nothing_is_taken() -> None:
    columns = {"counter": ["likes:a", "likes", "b:c", "d:e"], "delta": [1, 1, 0, 2**41]}

    with pytest.raises(BadInputError) as told:
        check_columns(columns, NOW_MS, 2)

    assert str(told.value) == (
        "row 1: counter: has no family; write family:key; "
        "row 2: delta: 0 is not allowed; row 3: delta: beyond 2^40"
    )


def test_what_the_caller_changes_later_is_not_sent() -> None:
    delta, at = np.array([1, 2]), np.array([NOW_MS, NOW_MS])
    columns = {"counter": ["a:b", "a:c"], "delta": delta, "at": at}
    [given], [wrapped] = (check_columns(each, NOW_MS, 10) for each in (columns, pa.table(columns)))

    delta[:] = 1_000_000
    at[:] = 0

    for table in (given, wrapped):
        assert table["delta"].to_pylist() == [1, 2]
        assert table["at"].to_pylist() == [NOW_MS, NOW_MS]


def test_many_bad_rows_are_counted() -> None:
    with pytest.raises(BadInputError, match="and 7 more rows"):
        check_columns({"counter": ["bad"] * 10}, NOW_MS, 100)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"delta": [1]}, "counter: missing; the columns are counter, delta"),
        ({"counter": ["a:b"], "weight": [1]}, "weight: unknown column"),
        ({"counter": ["a:b"], "delta": [1, 2]}, "cannot be read"),
        ({"counter": ["a:b", 1]}, "cannot be read"),
        ({"counter": [1]}, "counter: the column is int64"),
        ({"counter": ["a:b"], "delta": [0.5]}, "delta: the column is double"),
        ({"counter": ["a:b"], "delta": [2**70]}, "cannot be read"),
        ({"counter": ["a:\ud800"]}, "cannot be read"),
        (pa.table([["a:b"], ["a:c"]], ["counter", "counter"]), "counter: the column occurs twice"),
        ({"counter": ["a:b"], "at": pa.array([2**62], pa.timestamp("ms", "UTC"))}, "row 0"),
    ],
)
def test_columns_that_are_none(columns: Any, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        check_columns(columns, NOW_MS, 100)


@given(st.integers(0, 136 * 365 * 86_400 * 10**6))
def test_a_datetime_is_cut_to_the_millisecond(since_us: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_us)
    at = at.astimezone(timezone(timedelta(hours=5)))
    whole = at.astimezone(UTC)
    expected = int(whole.replace(microsecond=0).timestamp()) * 1000 + whole.microsecond // 1000

    assert check_increment({"counter": "a:b", "at": at}).at == expected


def test_a_datetime_without_zone_is_refused() -> None:
    with pytest.raises(BadInputError, match="no time zone"):
        check_increment({"counter": "a:b", "at": datetime(2026, 1, 1)})  # noqa: DTZ001 - the point
