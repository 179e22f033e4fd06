"""What the frames of one batch may grow to, together.

Each frame has bounds of its own (schemas/frame_limits.py), but a batch of some hundred bytes may
unpack to hundreds of frames. So a batch has a total, and a frame with which its batch goes past it
is refused. That is decided by the batch alone: by the log, never by how it was fetched.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import BadInputError
from schemas.frame_columns import repeated_text_bytes

MAX_BATCH_ROWS = 2**20
MAX_BATCH_TEXT_BYTES = 128 * 2**20
"""Of the columns whose texts are written once for many rows: dictionaries and views. Other text is
as long as it is written, which a batch has a bound for."""

_TEXTS = ("counter", "member", "region", "id")


class Weight(NamedTuple):
    """What a frame grows to when it is read."""

    rows: int
    text_bytes: int


def weights_of(written: Sequence[pa.Table | BadInputError]) -> list[Weight | None]:
    """Of the known columns of frames as the producers wrote them; None for what is no frame."""
    found: list[Weight | None] = []
    # Frames of one producer are alike: what is looked for in their columns is looked for once.
    schema: pa.Schema | None = None
    repeated: tuple[str, ...] = ()
    for one in written:
        if isinstance(one, BadInputError):
            found.append(None)
            continue
        if schema is None or not one.schema.equals(schema):
            schema, repeated = one.schema, _repeated_texts(one.schema)
        text_bytes = sum(repeated_text_bytes(name, one.column(name)) for name in repeated)
        found.append(Weight(one.num_rows, text_bytes))
    return found


def _repeated_texts(schema: pa.Schema) -> tuple[str, ...]:
    """The columns of text whose rows may share it."""
    return tuple(
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if name in _TEXTS and (pa.types.is_dictionary(kind) or pa.types.is_string_view(kind))
    )


def past_their_batch(
    weights: Sequence[Weight | None], batches: Sequence[int]
) -> dict[int, BadInputError]:
    """Which frames are too much for their batch, and why; `batches` has the number of each frame's.

    Frames without a weight could not be read.
    """
    known = [weight for weight in weights if weight]
    if (
        sum(weight.rows for weight in known) <= MAX_BATCH_ROWS
        and sum(weight.text_bytes for weight in known) <= MAX_BATCH_TEXT_BYTES
    ):
        return {}
    found = {}
    rows = text_bytes = 0
    current = -1
    for number, (weight, batch) in enumerate(zip(weights, batches, strict=True)):
        if batch != current:
            rows, text_bytes, current = 0, 0, batch
        if weight is None:
            continue
        rows += weight.rows
        text_bytes += weight.text_bytes
        if rows > MAX_BATCH_ROWS:
            found[number] = _past(f"{MAX_BATCH_ROWS} rows")
        elif text_bytes > MAX_BATCH_TEXT_BYTES:
            found[number] = _past(f"{MAX_BATCH_TEXT_BYTES} bytes of text")
    return found


def _past(bound: str) -> BadInputError:
    return BadInputError(f"frame: with it, its batch has more than {bound}; send smaller batches")
