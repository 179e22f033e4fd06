"""Spilled rows on their way into sketches, as columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

MINUTES_FOR_MS = 10 * MINUTE_MS
HOURS_FOR_MS = 2 * DAY_MS
"""A row at most so much older than its slot is counted in its minute, or in its hour; any other in
its day. Coarser windows are told by their first minute."""

SKETCHED_COLUMNS = ("counter", "region", "at", "p", "n", "offset")
"""What `absorb` needs of each row."""


@dataclass(frozen=True, slots=True)
class SpilledRows:
    """Those of one group of families, in log order."""

    counters: pa.Array
    regions: pa.Array
    window_ms: Int64Column
    deltas: Int64Column
    offsets: Int64Column

    @classmethod
    def of(cls, rows: pa.Table, slot_ms: int) -> SpilledRows:
        """Rows of a slot (see SKETCHED_COLUMNS)."""
        at_ms = rows["at"].to_numpy()
        return cls(
            rows["counter"].combine_chunks().cast(pa.string()),
            rows["region"].combine_chunks().cast(pa.string()),
            at_ms - at_ms % _window_length_ms(slot_ms - at_ms),
            rows["p"].to_numpy() - rows["n"].to_numpy(),
            rows["offset"].to_numpy(),
        )

    def by_region(self) -> Iterator[tuple[str, SpilledRows]]:
        """The rows of each region, the regions in the order of the rows."""
        for region in pc.unique(self.regions).to_pylist():
            yield region, self.where(pc.equal(self.regions, region).to_numpy(zero_copy_only=False))

    def first(self, count: int) -> SpilledRows:
        """The first so many rows."""
        return self.where(np.arange(len(self.offsets)) < count)

    def where(self, chosen: NDArray[np.bool_]) -> SpilledRows:
        """The chosen rows."""
        if chosen.all():
            return self
        mask = pa.array(chosen)
        return SpilledRows(
            self.counters.filter(mask),
            self.regions.filter(mask),
            self.window_ms[chosen],
            self.deltas[chosen],
            self.offsets[chosen],
        )


def _window_length_ms(age_ms: Int64Column) -> Int64Column:
    """How long the window of a row is that happened so much before its slot began."""
    hours = np.where(age_ms <= HOURS_FOR_MS, HOUR_MS, DAY_MS)
    return np.where(age_ms <= MINUTES_FOR_MS, MINUTE_MS, hours)
