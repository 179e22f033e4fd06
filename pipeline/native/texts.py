"""Texts that lie anywhere in a buffer, brought together as Arrow keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numba import types

from pipeline.native.kernel import BYTES, BYTES_OUT, INT32_OUT, INT64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel(types.void(BYTES, INT64, INT64, INT32_OUT, BYTES_OUT))
def _gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    ends: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Copy each text after the one before; `ends` has room for one more than there are."""
    at = 0
    ends[0] = 0
    for row in range(len(starts)):
        start = starts[row]
        for place in range(sizes[row]):
            out[at + place] = data[start + place]
        at += max(sizes[row], 0)
        ends[row + 1] = at


def gathered(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], *, nulls: bool
) -> pa.Array:
    """An array of the texts at these places, which are UTF-8 and below 2 GiB together.

    A size of -1 is a null, or an empty text without `nulls`.
    """
    is_text = sizes >= 0
    missing = len(sizes) - int(np.count_nonzero(is_text)) if nulls else 0
    if missing == len(sizes):
        return pa.nulls(len(sizes), pa.string())
    ends = np.empty(len(starts) + 1, np.int32)
    out = np.empty(int(sizes.sum(where=is_text)), np.uint8)
    _gather(data, starts, sizes, ends, out)
    validity = pa.py_buffer(np.packbits(is_text, bitorder="little")) if missing else None
    buffers = [pa.py_buffer(ends), pa.py_buffer(out), validity, missing]
    return pa.StringArray.from_buffers(len(starts), *buffers)
