"""A Misra-Gries summary of amounts by key, folded in blocks of rows: what `heavy` is made of.

For every key the true amount is at least what is kept of it, and at most `lost` more. Each fold
that takes `cut` from all keys takes it from more than `capacity` of them, so `lost` can never pass
the total divided by (capacity + 1): a certainty, not a probability.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEAD = struct.Struct("<QQIII")  # total, lost, rows that wait, keys kept, keys that wait
_BLOCK_ROWS_MIN = 8192
_CHUNKS_MAX = 16


class Summary:
    """Amounts above zero by key, in bounded memory."""

    __slots__ = ("_chunks", "_kept", "_rows", "capacity", "lost", "total")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.total = 0
        self.lost = 0
        self._kept = _table(pa.array([], pa.string()), np.zeros(0, np.int64))
        self._chunks: list[Any] = []  # tables of rows that wait for the block to be full
        self._rows = 0

    @property
    def block_rows(self) -> int:
        """After so many rows a block is folded; part of the format, as folds decide the state."""
        return max(_BLOCK_ROWS_MIN, 2 * self.capacity)

    def add(self, keys: Any, amounts: NDArray[np.int64], total: int) -> None:
        """Add rows in their order; `total` is the total after them."""
        self.total = total
        start = 0
        while start < len(keys):
            end = min(len(keys), start + self.block_rows - self._rows)
            self._chunks.append(
                _summed([_table(keys.slice(start, end - start), amounts[start:end])])
            )
            self._rows += end - start
            start = end
            if self._rows == self.block_rows:
                self._fold()
            elif len(self._chunks) > _CHUNKS_MAX:
                self._chunks = [_summed(self._chunks)]

    def merge(self, other: Summary, total: int) -> None:
        """Become the summary of both; the bounds stay as certain."""
        self._chunks = [self.known(), other.known()]
        self._kept = self._kept.slice(0, 0)
        self.lost += other.lost
        self.total = total
        self._fold()

    def known(self) -> Any:
        """Every key with what is known of it for certain: columns `key` and `amount`."""
        return _summed([self._kept, *self._chunks])

    def to_payload(self) -> bytes:
        """All there is to know; equal states have equal bytes."""
        kept, waiting = _sorted(self._kept), _sorted(_summed(self._chunks))
        head = _HEAD.pack(self.total, self.lost, self._rows, len(kept), len(waiting))
        return head + _to_bytes(kept) + _to_bytes(waiting)

    def _fold(self) -> None:
        found = self.known()
        self._chunks, self._rows = [], 0
        excess = len(found) - self.capacity
        if excess > 0:
            amounts = found["amount"].to_numpy()
            cut = int(np.partition(amounts, excess - 1)[excess - 1])
            stays = amounts > cut
            found = _table(found["key"].filter(pa.array(stays)), amounts[stays] - cut)
            self.lost += cut
        self._kept = found


def read_summary(payload: bytes, capacity: int) -> tuple[Summary, bytes]:
    """A summary and the bytes after it; raises BadInputError where they cannot be one."""
    made = Summary(capacity)
    if len(payload) < _HEAD.size:
        raise BadInputError("a damaged heavy sketch: it ends early")
    made.total, made.lost, made._rows, kept, waiting = _HEAD.unpack_from(payload)
    made._kept, rest = _from_bytes(payload[_HEAD.size :], kept)
    chunk, rest = _from_bytes(rest, waiting)
    made._chunks = [chunk] if waiting else []
    known = sum(made._kept["amount"].to_pylist()) + sum(chunk["amount"].to_pylist())
    if (
        kept > capacity
        or not waiting <= made._rows < made.block_rows
        or bool(made._rows) != bool(waiting)
        or made.total >= 1 << 63
        or known + made.lost * (capacity + 1) > made.total
    ):
        raise BadInputError("a damaged heavy sketch: its counts do not add up")
    return made, rest


def _table(keys: Any, amounts: NDArray[np.int64]) -> Any:
    return pa.table({"key": keys, "amount": amounts})


def _summed(tables: list[Any]) -> Any:
    """One row per key. It shares no memory with the tables, so these can be forgotten."""
    if not tables:
        return _table(pa.array([], pa.string()), np.zeros(0, np.int64))
    grouped = pa.concat_tables(tables).group_by("key", use_threads=False)
    summed = grouped.aggregate([("amount", "sum")])
    return pa.table({"key": summed["key"], "amount": summed["amount_sum"]}).combine_chunks()


def _sorted(table: Any) -> Any:
    return table.sort_by("key")


def _to_bytes(table: Any) -> bytes:
    keys = [key.encode() for key in table["key"].to_pylist()]
    lengths = np.fromiter(map(len, keys), "<u4", len(keys))
    return b"".join((lengths.tobytes(), table["amount"].to_numpy().astype("<i8").tobytes(), *keys))


def _from_bytes(payload: bytes, rows: int) -> tuple[Any, bytes]:
    if len(payload) < rows * 12:
        raise BadInputError("a damaged heavy sketch: it ends early")
    lengths = np.frombuffer(payload[: rows * 4], "<u4").astype(np.int64)
    amounts = np.frombuffer(payload[rows * 4 : rows * 12], "<i8").astype(np.int64)
    ends = np.cumsum(lengths) + rows * 12
    end = int(ends[-1]) if rows else 0
    if end > len(payload):
        raise BadInputError("a damaged heavy sketch: it ends early")
    try:
        bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        keys = pa.array([payload[start:stop].decode() for start, stop in bounds], pa.string())
    except UnicodeError as error:
        raise BadInputError(f"a damaged heavy sketch: {error}") from error
    table = _table(keys, amounts)
    is_sound = not rows or int(amounts.min()) > 0
    if not is_sound or pc.count_distinct(keys).as_py() != rows or not _sorted(table).equals(table):
        raise BadInputError("a damaged heavy sketch: its keys are not as it says")
    return table, payload[end:]
