"""What people ask of the dead letters of the current build, in SQL with bound parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.letters.letter import LetterKey
from pipeline.reads import live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

# What is in the log again is so for all builds; a row is in the tables of one.
_RETRIED = (
    "((shard, `offset`, `row`, log_time) IN "
    "(SELECT shard, `offset`, `row`, log_time FROM tally.retries) "
    "OR (build, shard, `offset`, `row`, log_time) IN "
    "(SELECT build, shard, `offset`, `row`, log_time FROM tally.put_back))"
)

# A letter may be there more than once, since parts merge later; reason and bytes are the same.
_LETTERS = (
    "SELECT shard, `offset`, `row`, toUnixTimestamp64Milli(log_time) AS log_ms, "  # noqa: S608 - see _where
    "any(reason) AS reason, any(bytes) AS bytes, any(sample) AS sample, "
    f"{_RETRIED} AS retried FROM tally.dead_letters AS letters WHERE {{where}} "
    "GROUP BY build, shard, `offset`, `row`, log_time"
)


_MOMENT = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters: those whose reason has this text in it, of this shard, since this moment.

    `waiting` leaves out those that were retried, `retried` the others; `set_aside` leaves out
    records, so that rows that ClickHouse refused remain.
    """

    reason: str | None = None
    shard: int | None = None
    since_ms: int | None = None
    waiting: bool = False
    retried: bool = False
    set_aside: bool = False


@dataclass(frozen=True, slots=True)
class ListedLetter:
    """A dead letter as ClickHouse lists it; `sample` is how its bytes begin, as text."""

    key: LetterKey
    reason: str
    bytes_total: int
    sample: str
    retried: bool


class LetterReads:
    """Queries of one ClickHouse. They block, and raise TryAgainError when it does not answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def letters(self, wanted: LetterFilter, limit: int) -> list[ListedLetter]:
        """The newest letters that match, newest first."""
        query = (
            f"{_LETTERS.format(where=_where(wanted))} "
            "ORDER BY log_ms DESC, shard, `offset` DESC, `row` DESC LIMIT {limit:UInt32}"
        )
        return [
            ListedLetter(LetterKey(*map(int, row[:4])), row[4], int(row[5]), row[6], bool(row[7]))
            for row in self._rows(query, {**_parameters(wanted), "limit": limit})
        ]

    def by_reason(self, wanted: LetterFilter) -> list[tuple[str, int]]:
        """How many letters match, by reason, the most frequent first."""
        query = (
            f"SELECT reason, count() AS letters FROM ({_LETTERS.format(where=_where(wanted))}) "  # noqa: S608 - see _where
            "GROUP BY reason ORDER BY letters DESC, reason"
        )
        return [(reason, int(count)) for reason, count in self._rows(query, _parameters(wanted))]

    def count(self, wanted: LetterFilter) -> int:
        """How many letters match."""
        query = f"SELECT count() FROM ({_LETTERS.format(where=_where(wanted))})"  # noqa: S608 - see _where
        [(count,)] = self._rows(query, _parameters(wanted))
        return int(count)

    def build(self) -> int:
        """The build whose letters these are."""
        [(build,)] = self._rows("SELECT build FROM tally.live_builds WHERE cluster = ''", {})
        return int(build)

    def record_retries(self, keys: Sequence[LetterKey], retried_at_ms: int) -> None:
        """Remember that these letters are in the log again."""
        self._remember("tally.retries", keys, {"retried_at": _moments(retried_at_ms, keys)})

    def record_put_back(self, keys: Sequence[LetterKey], build: int, put_back_at_ms: int) -> None:
        """Remember that the rows of these letters are in the tables of a build."""
        beside = {
            "build": pa.array([build] * len(keys), pa.uint32()),
            "put_back_at": _moments(put_back_at_ms, keys),
        }
        self._remember("tally.put_back", keys, beside)

    def _remember(self, table: str, keys: Sequence[LetterKey], beside: dict[str, pa.Array]) -> None:
        columns = {
            "shard": pa.array([key.shard for key in keys], pa.uint32()),
            "offset": pa.array([key.offset for key in keys], pa.int64()),
            "row": pa.array([key.row for key in keys], pa.int32()),
            "log_time": pa.array([key.log_ms for key in keys], _MOMENT),
            **beside,
        }
        try:
            self._client.insert_arrow(table, pa.table(columns), settings={"async_insert": 0})
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not remember that {len(keys)} letters are done with: {error}; run "
                "it again, which counts nothing twice"
            ) from error

    def _rows(self, query: str, parameters: dict[str, Any]) -> Sequence[Sequence[Any]]:
        try:
            return self._client.query(query, parameters).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error


def _moments(at_ms: int, keys: Sequence[LetterKey]) -> pa.Array:
    """The same moment for all of them."""
    return pa.array([at_ms] * len(keys), _MOMENT)


def _where(wanted: LetterFilter) -> str:
    """Conditions with bound parameters: nothing that anybody typed becomes a part of a query."""
    conditions = [live.OWN]
    if wanted.reason is not None:
        conditions.append("positionCaseInsensitiveUTF8(letters.reason, {reason:String}) > 0")
    if wanted.shard is not None:
        conditions.append("shard = {shard:UInt32}")
    if wanted.since_ms is not None:
        conditions.append("log_time >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')")
    if wanted.waiting:
        conditions.append(f"NOT {_RETRIED}")
    if wanted.retried:
        conditions.append(_RETRIED)
    if wanted.set_aside:
        conditions.append("`row` < 0")
    return " AND ".join(conditions)


def _parameters(wanted: LetterFilter) -> dict[str, Any]:
    values = {"reason": wanted.reason, "shard": wanted.shard, "since_ms": wanted.since_ms}
    return {name: value for name, value in values.items() if value is not None}
