"""What the transport hands to the decoder: one fetch of one partition, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Headers = tuple[tuple[str, bytes], ...]
"""Those headers of a record that Tally goes by, in their order; a name may occur more than once."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One fetch of one partition, in log order; row `i` of every column is the same record.

    Offsets ascend, possibly with gaps (compaction, control batches). `timestamps_ms` is what the
    log says, so LogAppendTime on Tally's own topics. A None in `values` is a tombstone. `is_marked`
    is true for each record with a header that Tally goes by, where that is known already.
    `batch_offsets` ascend: the first offset of each batch that they came in, where that is known.
    Raises ValueError when the columns differ in length: a bug of the transport, never bad input.
    """

    partition: int
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]
    is_marked: npt.NDArray[np.bool_] | None = None
    batch_offsets: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        lengths = {
            len(self.offsets),
            len(self.timestamps_ms),
            len(self.keys),
            len(self.values),
            len(self.headers),
        }
        if len(lengths) != 1:
            raise ValueError(f"the columns of a fetch differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.values)

    def marked(self) -> list[int]:
        """The records whose headers have to be looked at, in log order."""
        if self.is_marked is None:
            return [index for index, headers in enumerate(self.headers) if headers]
        found: list[int] = np.flatnonzero(self.is_marked).tolist()
        return found

    def cut(self, first: int, end: int) -> "Records":
        """The rows from `first` up to, not including, `end`."""
        part = slice(first, end)
        return replace(
            self,
            offsets=self.offsets[part],
            timestamps_ms=self.timestamps_ms[part],
            keys=self.keys[part],
            values=self.values[part],
            headers=self.headers[part],
            is_marked=None if self.is_marked is None else self.is_marked[part],
        )
