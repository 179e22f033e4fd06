"""Writes cells and positions to ClickHouse: absolute values, merged there by max.

Writing the same thing twice, or something older after something newer, changes nothing. So a write
whose answer was lost is simply written again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import clickhouse_connect
import numpy as np
import pyarrow as pa
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline.cells import CellKey
from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

    from pipeline.checkpoint import Position
    from pipeline.shard import ShardSnapshot


# Confirmed means stored; and a log that is caught up after a long time has cells of many days.
_INSERT_SETTINGS = {"async_insert": 0, "max_partitions_per_insert_block": 0}


class ClickHouseSink:
    """One ClickHouse as the cells of one build and replica see it.

    A Sink: its methods return when ClickHouse has confirmed; call one at a time. They raise
    TryAgainError when ClickHouse is away, OperatorError when it refuses the block.
    """

    def __init__(self, url: str, build: int, replica: str) -> None:
        self._url = url
        self._build = build
        self._replica = replica
        self._client: Client | None = None

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> None:
        """Insert what the snapshots hold to flush, as one block."""
        columns = _cell_columns(snapshots, self._build, self._replica)
        if columns.num_rows:
            await asyncio.to_thread(self._insert, "tally.cells_1m", columns)

    async def write_positions(self, positions: Sequence[Position]) -> None:
        """Insert one row per shard; call it after the cells it speaks of are confirmed."""
        if not positions:
            return
        columns = {
            "build": pa.array([self._build] * len(positions), pa.uint32()),
            "replica": pa.array([incarnate(self._replica, row.incarnation) for row in positions]),
            "shard": pa.array([row.shard for row in positions], pa.uint32()),
            "flushed_through": pa.array([row.flushed_through for row in positions], pa.int64()),
            "log_time": _timestamps_ms([row.log_ms for row in positions]),
            "flushed_at": _timestamps_ms([row.flushed_at_ms for row in positions]),
            "checkpoint_through": pa.array(
                [row.checkpoint_through for row in positions], pa.int64()
            ),
            "checkpointed_at": _timestamps_ms([row.checkpointed_at_ms for row in positions]),
        }
        await asyncio.to_thread(self._insert, "tally.positions", pa.table(columns))

    async def write_refusal(self, shard: int, reason: str, refused_at_ms: int) -> None:
        """Tell why a shard is not counted on, for `tally status`."""
        columns = {
            "build": pa.array([self._build], pa.uint32()),
            "shard": pa.array([shard], pa.uint32()),
            "refused_at": _timestamps_ms([refused_at_ms]),
            "reason": pa.array([reason]),
        }
        await asyncio.to_thread(self._insert, "tally.refusals", pa.table(columns))

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _insert(self, table: str, columns: pa.Table) -> None:
        try:
            if self._client is None:
                self._client = connect(self._url)
            self._client.insert_arrow(table, columns, settings=_INSERT_SETTINGS)
        except DatabaseError as error:
            # The server answered, and said no.
            raise OperatorError(f"ClickHouse refused a block of {table}: {error}") from error
        except (ClickHouseError, OSError) as error:
            self.close()
            raise TryAgainError(
                f"ClickHouse at {without_secrets(self._url)} does not answer: {error}"
            ) from error


def connect(url: str) -> Client:
    """A client of the ClickHouse at `url`. Blocks for the handshake; raises TryAgainError."""
    try:
        return clickhouse_connect.get_client(
            dsn=url, connect_timeout=5, send_receive_timeout=30, autogenerate_session_id=False
        )
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(
            f"ClickHouse at {without_secrets(url)} does not answer; is it up? TALLY_CLICKHOUSE "
            "sets its URL"
        ) from error


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def incarnate(replica: str, incarnation: int) -> str:
    """The replica's name in cells: what was counted before a log was lost stays apart."""
    return f"{replica}~{incarnation}" if incarnation else replica


def _cell_columns(snapshots: Sequence[ShardSnapshot], build: int, replica: str) -> pa.Table:
    parts = [(snapshot.shard.partition, part) for snapshot in snapshots for part in snapshot.flush]
    cells = [CellKey.parse(key) for _, part in parts for key in part.values.keys]
    sizes = [len(part.values.keys) for _, part in parts]
    rows = sum(sizes)
    slots_s = np.repeat([part.cells.slot_ms // 1000 for _, part in parts], sizes)
    replicas = [
        incarnate(replica, snapshot.incarnation) for snapshot in snapshots for _ in snapshot.flush
    ]
    none = [np.empty(0, np.int64)]
    return pa.table(
        {
            "build": pa.array(np.full(rows, build, np.uint32)),
            "counter": pa.array([cell.counter for cell in cells], pa.string()),
            "region": pa.array([cell.region for cell in cells], pa.string()),
            "window": _timestamps_s(np.array([cell.window_ms // 1000 for cell in cells], np.int64)),
            "slot": _timestamps_s(slots_s.astype(np.int64)),
            "replica": pa.array(np.repeat(replicas, sizes).tolist(), pa.string()),
            "shard": pa.array(np.repeat([shard for shard, _ in parts], sizes).astype(np.uint32)),
            "p": np.concatenate([part.values.p for _, part in parts] or none),
            "n": np.concatenate([part.values.n for _, part in parts] or none),
            "through": np.concatenate([part.values.through for _, part in parts] or none),
        }
    )


def _timestamps_s(seconds: np.ndarray) -> pa.Array:
    return pa.array(seconds).cast(pa.timestamp("s", "UTC"))


def _timestamps_ms(milliseconds: list[int]) -> pa.Array:
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))
