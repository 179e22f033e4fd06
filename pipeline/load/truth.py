"""What the counts must be: exactly what was sent, by counter, region and minute. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from pipeline.load.mix import COUNTERS_MAX, REGIONS_MAX
from schemas.times import AT_MAX_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pipeline.load.generator import Increments

    Int64Column = NDArray[np.int64]

MINUTE_MS = 60_000
_MINUTES = AT_MAX_MS // MINUTE_MS + 1
assert COUNTERS_MAX * REGIONS_MAX * _MINUTES < 2**63
_ROWS_KEPT = 1 << 20


class Sums(NamedTuple):
    """Sums of deltas, ascending by key. A key stands for counter, region and minute."""

    keys: Int64Column
    added: Int64Column
    removed: Int64Column


def _nothing() -> Sums:
    return Sums(*(np.zeros(0, np.int64) for _ in Sums._fields))


class Truth:
    """Adds up increments. Its memory grows with the cells they are of, not with their number."""

    def __init__(self, regions: int) -> None:
        """For increments of at most so many regions."""
        self._regions = regions
        self._sums = _nothing()
        self._more: list[Sums] = []
        self._rows = 0

    def add(self, increments: Increments) -> None:
        key = increments.counter.astype(np.int64) * self._regions + increments.region
        key = key * _MINUTES + increments.at_ms // MINUTE_MS
        self.merge(
            _grouped(
                key,
                np.where(increments.delta > 0, increments.delta, 0),
                np.where(increments.delta < 0, -increments.delta, 0),
            )
        )

    def merge(self, sums: Sums) -> None:
        """Take in what another one has added up."""
        self._more.append(sums)
        self._rows += len(sums.keys)
        if self._rows > max(_ROWS_KEPT, len(self._sums.keys)):
            self._sums = self.sums()

    def sums(self) -> Sums:
        """All that was added."""
        parts = [self._sums, *self._more]
        self._sums = _grouped(
            *(
                np.concatenate([part[column] for part in parts])
                for column in range(len(Sums._fields))
            )
        )
        self._more, self._rows = [], 0
        return self._sums


def documents(sums: Sums, counters: Sequence[str], regions: Sequence[str]) -> Iterator[bytes]:
    """NDJSON lines: `counter`, `region`, `minute` (ms since 1970), `count`, `added`, `removed`.

    In the order of counters, regions and minutes.
    """
    names, minutes = np.divmod(sums.keys, _MINUTES)
    rows = zip(
        names.tolist(), minutes.tolist(), sums.added.tolist(), sums.removed.tolist(), strict=True
    )
    for name, minute, added, removed in rows:
        counter, region = divmod(name, len(regions))
        yield msgspec.json.encode(
            {
                "counter": counters[counter],
                "region": regions[region],
                "minute": minute * MINUTE_MS,
                "count": added - removed,
                "added": added,
                "removed": removed,
            }
        )


def _grouped(keys: Int64Column, added: Int64Column, removed: Int64Column) -> Sums:
    found, which = np.unique(keys, return_inverse=True)
    sums = Sums(found, np.zeros(len(found), np.int64), np.zeros(len(found), np.int64))
    np.add.at(sums.added, which, added)
    np.add.at(sums.removed, which, removed)
    return sums
