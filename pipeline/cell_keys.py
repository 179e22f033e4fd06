"""Keys of cells, one by one and of a whole column. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pipeline.cells import Int64Column

WINDOW_MS = 60_000


class CellKey(NamedTuple):
    """Which cell of a slot: the slot and the shard are its holder's."""

    counter: str
    region: str
    window_ms: int

    def text(self) -> str:
        """The key as one string: half the memory of a tuple, and unambiguous for any text."""
        return f"{self.window_ms // WINDOW_MS} {len(self.region)} {self.region}{self.counter}"

    @classmethod
    def parse(cls, text: str) -> CellKey:
        """The inverse of `text`."""
        window, region_length, rest = text.split(" ", 2)
        cut = int(region_length)
        return cls(rest[cut:], rest[:cut], int(window) * WINDOW_MS)


def key_texts(counters: pa.Array, regions: pa.Array, windows_ms: Int64Column) -> pa.Array:
    """`CellKey.text` of a whole column at once. Of windows and regions there are few."""
    windows, places = pa.array(windows_ms).dictionary_encode(), regions.dictionary_encode()
    times = [f"{window_ms // WINDOW_MS} " for window_ms in windows.dictionary.to_pylist()]
    names = [f"{len(region)} {region}" for region in places.dictionary.to_pylist()]
    return pc.binary_join_element_wise(
        pa.array(times, pa.string()).take(windows.indices),
        pa.array(names, pa.string()).take(places.indices),
        counters,
        "",
    )
