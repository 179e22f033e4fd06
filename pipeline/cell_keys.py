"""Keys of cells, one by one and of a whole column. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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


class CellColumns(NamedTuple):
    """The keys of many cells, a column for each field."""

    counters: pa.Array
    regions: pa.Array
    windows_ms: Int64Column


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


def parse_keys(texts: Sequence[str]) -> CellColumns:
    """`CellKey.parse` of a whole column at once: the inverse of `key_texts`."""
    split = pc.split_pattern(pa.array(texts, pa.string()), " ", max_splits=2)
    window, region_length, rest = (pc.list_element(split, place) for place in range(3))
    windows, lengths = window.dictionary_encode(), region_length.dictionary_encode()
    starts_ms = windows.dictionary.cast(pa.int64()).to_numpy() * WINDOW_MS
    cuts = lengths.dictionary.cast(pa.int64()).to_pylist()
    regions, counters = _cut(rest, cuts, lengths.indices.to_numpy())
    return CellColumns(counters, regions, starts_ms[windows.indices.to_numpy()])


def _cut(texts: pa.Array, cuts: list[int], which: NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
    """The first `cuts[which]` characters of each text, and the rest. Of cuts there are few."""
    if len(cuts) <= 1:
        return _cut_at(texts, sum(cuts))
    chosen = [np.flatnonzero(which == number) for number in range(len(cuts))]
    parts = [_cut_at(texts.take(pa.array(rows)), at) for rows, at in zip(chosen, cuts, strict=True)]
    place = np.empty(len(texts), np.int64)
    place[np.concatenate(chosen)] = np.arange(len(texts))
    heads, tails = (
        pa.concat_arrays(found).take(pa.array(place)) for found in zip(*parts, strict=True)
    )
    return heads, tails


def _cut_at(texts: pa.Array, at: int) -> tuple[pa.Array, pa.Array]:
    return pc.utf8_slice_codeunits(texts, 0, at), pc.utf8_slice_codeunits(texts, at)
