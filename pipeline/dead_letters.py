"""Dead letters: refused records, with their bytes, their place and a reason people understand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.bulk import Fetch
    from pipeline.decode import Refused
    from pipeline.placing import Misplaced

TOPIC = "tally.dead-letters"

MAX_BYTES = 4 * 1024 * 1024
"""A dead letter is a record with headers added, so it may be larger than any record could be."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record, or one row of a frame. Its place tells repeated writes of it apart."""

    partition: int
    offset: int
    row: int
    reason: str
    value: bytes

    def key(self) -> bytes:
        """Its place: a repeated write after a crash has the same key."""
        return f"{self.partition}/{self.offset}/{self.row}".encode()

    def headers(self) -> list[tuple[str, bytes]]:
        """What goes beside its bytes."""
        return [
            ("tally-partition", str(self.partition).encode()),
            ("tally-offset", str(self.offset).encode()),
            ("tally-row", str(self.row).encode()),
            ("tally-reason", self.reason.encode()),
        ]


def dead_letters(
    fetch: Fetch, refused: Iterable[Refused], misplaced: Iterable[Misplaced]
) -> Iterator[DeadLetter]:
    """What the decoder and the shard refused of a fetch."""
    records = fetch.records
    for bad in refused:
        yield DeadLetter(records.partition, bad.offset, bad.row, bad.reason, bad.value)
    for stray in misplaced:
        value = records.values[int(np.searchsorted(records.offsets, stray.offset))]
        yield DeadLetter(records.partition, stray.offset, stray.row, stray.reason, value or b"")
