"""One stable hash for all sketches. Pure; the values are pinned by tests and never change.

The hash is CityHash64 of the text's UTF-8, as ClickHouse's `cityHash64(text)` computes it, so SQL
can make the registers of a sketch from raw members and check what a worker made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from clickhouse_cityhash.cityhash import CityHash64

from pipeline.errors import BadInputError
from pipeline.native.loading import kernels
from schemas.frame_columns import starts_and_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray


def texts(column: Column) -> Any:
    """A column of texts as one Arrow array of strings; raises BadInputError for anything else.

    Nulls, other types and half characters (lone surrogates) are refused before anything is counted.
    """
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not isinstance(found, pa.Array):
        if isinstance(found, str):
            raise BadInputError("a column of texts is needed, not one text: put it into a list")
        try:
            found = pa.array(found, pa.string())
        except (UnicodeError, pa.ArrowException, TypeError) as error:
            raise BadInputError(f"not a column of Unicode texts: {error}") from error
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if not (pa.types.is_string(found.type) or pa.types.is_large_string(found.type)):
        raise BadInputError(f"a column of texts is needed, this one holds {found.type}")
    if found.null_count:
        raise BadInputError("a column of texts may hold no nulls: filter them out first")
    try:
        found.validate(full=True)
    except pa.ArrowException as error:
        raise BadInputError(f"not a column of Unicode texts: {error}") from error
    return found


def hashes(column: Column) -> NDArray[np.uint64]:
    """The hash of every text of a column, in its order; raises BadInputError as `texts` does."""
    if isinstance(column, list):
        # Python texts are hashed where they are: making an Arrow column first takes as long again.
        try:
            return np.fromiter(map(CityHash64, map(str.encode, column)), np.uint64, len(column))
        except (UnicodeError, TypeError) as error:
            raise BadInputError(f"not a column of Unicode texts: {error}") from error
    found = texts(column)
    if kernels.are_loaded and found.type == pa.string() and len(found):
        return _hashed_in_place(found)
    raw = found.cast(pa.large_binary() if pa.types.is_large_string(found.type) else pa.binary())
    return np.fromiter(map(CityHash64, raw.to_pylist()), np.uint64, len(raw))


def _hashed_in_place(found: pa.StringArray) -> NDArray[np.uint64]:
    """By a kernel, without an object for any text; those that it leaves one by one."""
    from pipeline.native.hashing import SIZE_MAX, hash_texts  # noqa: PLC0415 - loaded late

    starts, data = starts_and_bytes(found)
    hashed = np.empty(len(found), np.uint64)
    if hash_texts(data, starts, hashed):
        for row in np.flatnonzero(np.diff(starts) > SIZE_MAX).tolist():
            hashed[row] = CityHash64(data[starts[row] : starts[row + 1]].tobytes())
    return hashed


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter whole numbers over 64 bits, one to one: the finalizer of SplitMix64."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
