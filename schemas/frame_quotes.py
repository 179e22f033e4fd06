"""A frame's columns as its refused rows quote them: cheap to take single rows of."""

import pyarrow as pa
import pyarrow.compute as pc

from schemas.frame_columns import as_at

QUOTED_TEXT_MAX = 1024
"""So many characters of a text are quoted."""


def as_quoted(column: pa.ChunkedArray) -> pa.Array:
    """The same values in one piece; times as milliseconds, entries of dictionaries cut short.

    A text that is written once for many rows would otherwise be made anew for each of them. The
    column is one that could be read (schemas/frames.py).
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = as_at(column)
    elif pa.types.is_string_view(kind):
        column = column.cast(pa.string())
    elif pa.types.is_dictionary(kind):
        column = pa.chunked_array([_short(chunk) for chunk in column.chunks])
    return column.combine_chunks()


def _short(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    entries = pc.utf8_slice_codeunits(chunk.dictionary.cast(pa.string()), 0, QUOTED_TEXT_MAX)
    # Together the chunks may have more entries than the numbers of one of them go up to.
    return pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int64()), entries)
