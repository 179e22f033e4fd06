"""What ClickHouse has of a shard beyond its last checkpoint."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.cells import CellKey
from pipeline.control.going_on import Flushed
from pipeline.placing import slot_of
from pipeline.shard import NOTHING_COUNTED
from pipeline.slots import incarnate

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads
    from pipeline.shard import Shard

_SHARD = "build = {build:UInt32} AND replica = {replica:String} AND shard = {shard:UInt32}"
_POSITION = f"SELECT max(flushed_through) FROM tally.positions WHERE {_SHARD} GROUP BY shard"  # noqa: S608 - a constant
_CELLS = (
    "SELECT counter, region, toUnixTimestamp(window), toUnixTimestamp(slot), max(through) "  # noqa: S608 - a constant
    f"FROM tally.cells_1m WHERE {_SHARD} AND slot >= toDateTime({{slot_s:UInt32}}, 'UTC') "
    "GROUP BY counter, region, window, slot"
)


class FlushedReads:
    """Asks one ClickHouse about the shards of a build. Blocks; raises TryAgainError."""

    def __init__(self, reads: Reads, build: int) -> None:
        self._reads = reads
        self._build = build

    def read(self, shard: Shard) -> Flushed:
        """What was flushed under the shard's incarnation, in the slots open at its position or
        later.

        A worker may have died between cells and their position row, so both are asked.
        """
        parameters = {
            "build": self._build,
            "replica": incarnate(shard.replica, shard.incarnation),
            "shard": shard.partition,
            "slot_s": slot_of(shard.log_ms) // 1000,
        }
        position = self._reads.rows(_POSITION, parameters)
        through = int(position[0][0]) if position else NOTHING_COUNTED
        slots: dict[int, dict[str, int]] = defaultdict(dict)
        for counter, region, window_s, slot_s, cell_through in self._reads.rows(_CELLS, parameters):
            key = CellKey(counter, region, window_s * 1000).text()
            slots[slot_s * 1000][key] = cell_through
            through = max(through, cell_through)
        return Flushed(through, slots)
