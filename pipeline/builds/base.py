"""What is older than a new build counts, carried over from the build before.

Rows are copied under the new build's number, table by table, the finer grain first: what is rolled
up meanwhile, and then dropped, is in the coarser one by the time that is copied. Copies have the
keys of what they are copied from, so doing it twice changes nothing. Which tables those are is in
pipeline/builds/carried.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.builds.carried import CUT
from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clickhouse_connect.driver import Client

_MONTH_IS_GONE = (
    "SELECT count() FROM tally.final_days WHERE build = {build} AND grain = 'life' "
    "AND slot_day = toStartOfMonth(toDateTime({moment}, 'UTC'))"
)


def carry(
    client: Client,
    base: int,
    build: int,
    moment_ms: int,
    *,
    tables: Mapping[str, str],
    tell: Callable[[str], None] = lambda _table: None,
) -> None:
    """Copy rows from build `base` to `build`: of each table those that `tables` says, of a moment.

    Blocks, for minutes if there is much; `tell` hears of each table before it is copied. Raises
    TryAgainError when ClickHouse is away, OperatorError when it refuses.
    """
    for table, older in tables.items():
        columns = _columns(client, table)
        if columns:
            tell(table)
            moment = _s(moment_ms)
            values = {name: f"`{name}`" for name in columns}
            values |= {name: cut.format(moment=moment) for name, cut in CUT.get(table, {}).items()}
            values["build"] = f"toUInt32({build})"
            _copy(client, table, values, f"build = {base} AND {older.format(moment=moment)}")


def month_is_folded(client: Client, base: int, moment_ms: int) -> bool:
    """Whether lifetime totals already hold the month of a moment as a whole, so that its days
    before it cannot be told from those after. Blocks; raises TryAgainError."""
    query = _MONTH_IS_GONE.format(build=base, moment=_s(moment_ms))
    return bool(_rows(client, query)[0][0])


def _s(milliseconds: int) -> int:
    return milliseconds // 1000


def _columns(client: Client, table: str) -> list[str]:
    """The columns that are written; none if there is no such table."""
    rows = _rows(
        client,
        "SELECT name FROM system.columns WHERE database = 'tally' AND table = {table:String} "
        "AND default_kind != 'MATERIALIZED' ORDER BY position",
        {"table": table},
    )
    return [str(name) for (name,) in rows]


def _copy(client: Client, table: str, values: Mapping[str, str], where: str) -> None:
    names = ", ".join(f"`{name}`" for name in values)
    statement = (
        f"INSERT INTO tally.{table} ({names}) "  # noqa: S608 - names are constants and columns
        f"SELECT {', '.join(values.values())} FROM tally.{table} WHERE {where}"
    )
    try:
        client.command(statement, settings={"max_partitions_per_insert_block": 0})
    except OSError as error:
        raise TryAgainError(f"ClickHouse did not copy {table}: {error}") from error
    except ClickHouseError as error:
        raise OperatorError(f"ClickHouse refuses to copy {table}: {error}") from error


def _rows(
    client: Client, query: str, parameters: dict[str, Any] | None = None
) -> Sequence[Sequence[Any]]:
    try:
        return client.query(query, parameters).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not answer: {error}") from error
