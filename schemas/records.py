"""What the transport hands to the decoder: one fetch of one partition, as columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Headers = tuple[tuple[str, bytes], ...]
"""The headers of one record, in their order; a name may occur more than once."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One fetch of one partition, in log order; row `i` of every column is the same record.

    Offsets ascend, possibly with gaps (compaction, control batches). `timestamps_ms` is what the
    log says, so LogAppendTime on Tally's own topics. A None in `values` is a tombstone. Raises
    ValueError when the columns differ in length: a bug of the transport, never bad input.
    """

    partition: int
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]

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

    def cut(self, first: int, end: int) -> "Records":
        """The rows from `first` up to, not including, `end`."""
        part = slice(first, end)
        return Records(
            self.partition,
            self.offsets[part],
            self.timestamps_ms[part],
            self.keys[part],
            self.values[part],
            self.headers[part],
        )
