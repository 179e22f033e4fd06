"""What is older than a new build counts, carried over from the build before.

Rows are copied under the new build's number, table by table, the finer grain first: what is rolled
up meanwhile, and then dropped, is in the coarser one by the time that is copied. Copies have the
keys of what they are copied from, so doing it twice changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from clickhouse_connect.driver import Client

_SLOT = "slot < toDateTime({moment}, 'UTC')"
_SLOT_DAY = "slot_day < toDate(toDateTime({moment}, 'UTC'))"
_SLOT_MONTH = "slot_month < toStartOfMonth(toDateTime({moment}, 'UTC'))"
_WINDOW = "window < toDateTime({moment}, 'UTC')"
_LOG_TIME = "log_time < toDateTime({moment}, 'UTC')"

CARRIED = {
    "cells_1m": _SLOT,
    "distinct_1m": _SLOT_DAY,
    "trend_members": _SLOT_DAY,
    "frequency_1m": _SLOT,
    "heavy_1m": _SLOT,
    "slots": _SLOT,
    "cells_1h": _SLOT_DAY,
    "distinct_1h": _SLOT_DAY,
    "frequency_1h": _SLOT_DAY,
    "heavy_1h": _WINDOW,
    "cells_1d": _SLOT_DAY,
    "distinct_1d": _SLOT_DAY,
    "frequency_1d": _SLOT_DAY,
    "heavy_1d": _WINDOW,
    "cells_life": _SLOT_MONTH,
    "frequency_life": _SLOT_MONTH,
    "dead_letters": _LOG_TIME,
    "adjustments": _LOG_TIME,
}
"""The tables that are carried over, in this order, and which of their rows are older."""

TRENDS = {
    "trend_scores": "true",
    "trend_families": "true",
    "trend_provisional": "true",
    "trend_open": "true",
    "trend_windows": "true",
}
"""What trended is history: whole, whatever the new build counts. The windows say that the rest is
there, so they are last."""

_SINCE = "window >= toDateTime({moment}, 'UTC')"
NEW_TRENDS = TRENDS | {"trend_scores": _SINCE, "trend_windows": _SINCE}
"""Of that, what was scored since a moment."""

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
            _copy(
                client,
                table,
                columns,
                f"build = {base} AND {older.format(moment=_s(moment_ms))}",
                build,
            )


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


def _copy(client: Client, table: str, columns: Iterable[str], where: str, build: int) -> None:
    names = [f"`{name}`" for name in columns]
    values = [f"toUInt32({build})" if name == "`build`" else name for name in names]
    statement = (
        f"INSERT INTO tally.{table} ({', '.join(names)}) "  # noqa: S608 - names are constants and columns
        f"SELECT {', '.join(values)} FROM tally.{table} WHERE {where}"
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
