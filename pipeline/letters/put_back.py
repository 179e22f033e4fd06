"""Which rows are put back how, for all tables that may refuse some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.letters.adjusted import AdjustmentRows
from pipeline.letters.heaviest import HeaviestRows
from pipeline.letters.kept_days import ClickHouseKeptDays
from pipeline.letters.names import NameTables
from pipeline.letters.registers import RegisterRows
from pipeline.letters.rows import ADJUSTMENTS, BUCKETS, CELLS, HEAVIEST, REGISTERS
from pipeline.letters.summed import SummedRows
from pipeline.letters.sums import BUCKETS_SUMMED, CELLS_SUMMED, SumTables

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from pipeline.letters.insert import PutsBack, RowTable


def by_table(table: RowTable, client: Client, build: int) -> dict[str, PutsBack]:
    """For the rows of one build, all written by `table`; `client` reads, and writes sums."""
    registers = RegisterRows(table, ClickHouseKeptDays(client, build))
    return {
        CELLS: SummedRows(table, SumTables(client, build, CELLS_SUMMED)),
        BUCKETS: SummedRows(table, SumTables(client, build, BUCKETS_SUMMED)),
        HEAVIEST: HeaviestRows(table, NameTables(client, build)),
        ADJUSTMENTS: AdjustmentRows(table),
        **dict.fromkeys(REGISTERS, registers),
    }
