"""A column of bytes that lie in one buffer: objects are made of those alone that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


class Blobs(Sequence["bytes | None"]):
    """Blob `i` is the `sizes[i]` bytes of `data` from `starts[i]` on; a size of -1 is None.

    The places are the maker's to have checked. Nothing is ever changed.
    """

    __slots__ = ("data", "sizes", "starts")

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        self.data = data
        self.starts = starts
        self.sizes = sizes

    @classmethod
    def of(cls, blobs: Sequence[bytes | None]) -> Blobs:
        """A copy of other blobs."""
        sizes = np.array([-1 if blob is None else len(blob) for blob in blobs], np.int64)
        ends = np.cumsum(np.maximum(sizes, 0))
        data = np.frombuffer(b"".join(blob or b"" for blob in blobs), np.uint8)
        return cls(data, ends - np.maximum(sizes, 0), sizes)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, which: int) -> bytes | None: ...
    @overload
    def __getitem__(self, which: slice) -> Blobs: ...
    def __getitem__(self, which: int | slice) -> bytes | Blobs | None:
        if isinstance(which, slice):
            return Blobs(self.data, self.starts[which], self.sizes[which])
        start, size = int(self.starts[which]), int(self.sizes[which])
        return None if size < 0 else self.data[start : start + size].tobytes()

    def take(self, which: npt.NDArray[np.int64]) -> Blobs:
        """Some of them, in that order."""
        return Blobs(self.data, self.starts[which], self.sizes[which])

    def nulls(self) -> npt.NDArray[np.int64]:
        """Which are None."""
        return np.flatnonzero(self.sizes < 0)
