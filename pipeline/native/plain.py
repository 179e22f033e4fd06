"""Plain events as Arrow columns, by the kernel that reads them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.native.events import QUOTES_MAX, TEXTS, read_events
from pipeline.native.texts import gathered
from schemas.frames import FRAME_SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schemas.blobs import Blobs


def read_plain(values: Blobs) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows of the plain values, within all limits, in FRAME_SCHEMA; and which are not plain.

    `at` is null where a value has none.
    """
    rows = len(values)
    starts, sizes = np.empty((2, len(TEXTS), rows), np.int64)
    delta, at_ms = np.empty((2, rows), np.int64)
    is_left = np.empty(rows, np.uint8)
    out = (starts, sizes, delta, at_ms, is_left, np.empty(QUOTES_MAX, np.int64))
    left = np.zeros(0, np.int64)
    if read_events(values.data, values.starts, values.sizes, *out):
        left, plain = np.flatnonzero(is_left), is_left == 0
        starts, sizes = np.compress(plain, starts, axis=1), np.compress(plain, sizes, axis=1)
        delta, at_ms = delta[plain], at_ms[plain]
    texts = {
        name: gathered(values.data, start, size, nulls=name != "region")
        for name, start, size in zip(TEXTS, starts, sizes, strict=True)
    }
    has_no_time = at_ms < 0
    at = pa.array(at_ms, mask=has_no_time if has_no_time.any() else None)
    columns = {"delta": pa.array(delta), "at": at, **texts}
    return pa.table([columns[name] for name in FRAME_SCHEMA.names], schema=FRAME_SCHEMA), left
