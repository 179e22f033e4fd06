"""The fetch: one piece of one partition of the log, with what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pipeline.decode import Decoded
    from pipeline.shard import BatchMark
    from schemas.records import Records


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """What one fetch of one partition brought.

    The records cover the offsets from `start` up to, not including, `next_offset`: offsets in that
    range without a record hold none (compacted away, aborted, or markers of transactions). So one
    fetch's `next_offset` is the `start` of the next one, unless something was lost in between.
    `size_bytes` is what came over the wire for it. `decoded` is what the records hold, where that
    was read ahead. `is_newest` tells that the broker had no more. `epochs` are those of the leaders
    that took its first and its last batch; None if it has none.
    """

    start: int
    next_offset: int
    records: Records
    first_batch: BatchMark | None = None
    last_batch: BatchMark | None = None
    size_bytes: int = 0
    is_newest: bool = False
    decoded: Decoded | None = None
    epochs: tuple[int, int] | None = None


def cut_after(fetch: Fetch, offset: int) -> tuple[Fetch, Fetch]:
    """What the fetch holds up to an offset of it, and what comes after."""
    at = int(np.searchsorted(fetch.records.offsets, offset + 1))
    decoded = fetch.decoded
    # Cut, not decoded again: of a batch that is cut apart the decoder has to see everything.
    return (
        Fetch(
            fetch.start,
            offset + 1,
            fetch.records.cut(0, at),
            decoded=decoded and decoded.part(fetch.start, offset + 1),
            epochs=fetch.epochs,
        ),
        Fetch(
            offset + 1,
            fetch.next_offset,
            fetch.records.cut(at, len(fetch.records)),
            last_batch=fetch.last_batch,
            size_bytes=fetch.size_bytes,
            is_newest=fetch.is_newest,
            decoded=decoded and decoded.part(offset + 1, fetch.next_offset),
            epochs=fetch.epochs and (fetch.epochs[1], fetch.epochs[1]),
        ),
    )
