"""How much of the log is taken in one piece, counted as it is when it is unpacked.

What comes over the wire says little: a few hundred bytes may hold a hundred megabytes, and one
answer of a broker thousands of such batches. So a fetch ends after the batch that fills it, and the
rest is fetched again. What becomes of a record never depends on where that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from schemas.frame_weights import Weight
    from schemas.records import Records

UNPACKED_BYTES_MAX = 64 << 20
"""Of the batches of one fetch, and the batch that fills it."""

ROWS_MAX = 2**20
"""Of one fetch, records and rows of frames together; a single batch may have more."""

TEXT_BYTES_MAX = 128 << 20
"""Of the repeated text of the frames of one fetch; a single batch may have as much."""


class FetchSize:
    """How much was taken of a fetch so far."""

    __slots__ = ("records", "unpacked_bytes")

    def __init__(self) -> None:
        self.records = 0
        self.unpacked_bytes = 0

    def add(self, records: int, unpacked_bytes: int) -> None:
        """One more batch was taken."""
        self.records += records
        self.unpacked_bytes += unpacked_bytes

    @property
    def is_enough(self) -> bool:
        """Whether no further batch is to be taken."""
        return self.unpacked_bytes >= UNPACKED_BYTES_MAX or self.records >= ROWS_MAX


def end_of_room(
    records: Records, frames: Sequence[int], weights: Sequence[Weight | None]
) -> int | None:
    """The first offset of the batch with which a fetch would be too much; None if all of it fits.

    `weights` are those of the records in the places `frames`, where they could be read. The first
    batch always fits: what it may hold has bounds of its own.
    """
    rows = len(records) + sum(weight.rows for weight in weights if weight)
    text_bytes = sum(weight.text_bytes for weight in weights if weight)
    if records.batch_offsets is None or (rows <= ROWS_MAX and text_bytes <= TEXT_BYTES_MAX):
        return None
    row_totals, text_totals = np.ones(len(records), np.int64), np.zeros(len(records), np.int64)
    for place, weight in zip(frames, weights, strict=True):
        if weight:
            row_totals[place] = weight.rows
            text_totals[place] = weight.text_bytes
    fits = (row_totals.cumsum() <= ROWS_MAX) & (text_totals.cumsum() <= TEXT_BYTES_MAX)
    return _batch_without_room(records.offsets, records.batch_offsets, fits)


def _batch_without_room(
    offsets: NDArray[np.int64], batch_offsets: NDArray[np.int64], fits: NDArray[np.bool_]
) -> int | None:
    """The batch of the first record that does not fit, unless it is the first one."""
    if fits.all():
        return None
    batches = np.searchsorted(batch_offsets, offsets, "right")
    batch = batches[int(np.argmin(fits))]
    if batch == batches[0]:
        later = np.flatnonzero(batches > batch)
        if len(later) == 0:
            return None
        batch = batches[later[0]]
    return int(batch_offsets[batch - 1])
