"""What the model reads of events' values, for holding decoders against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError
from schemas.events import read_event
from schemas.records import Headers, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_MS = 1_790_000_000_000


def fetched(values: Sequence[bytes | None], headers: Headers = ()) -> Records:
    """The values as one fetch, all of one log time and with the same headers."""
    count = len(values)
    return Records(
        partition=0,
        offsets=np.arange(count, dtype=np.int64),
        timestamps_ms=np.full(count, LOG_MS, np.int64),
        keys=[None] * count,
        values=values,
        headers=[headers] * count,
    )


def as_the_model_reads(
    values: Sequence[bytes],
) -> tuple[list[dict[str, object]], list[tuple[int, str, bytes]]]:
    """The rows of a fetch of them, and what is refused: its offset, the reason and the value."""
    rows: list[dict[str, object]] = []
    refused: list[tuple[int, str, bytes]] = []
    for offset, value in enumerate(values):
        try:
            event = read_event(value).model_dump()
        except BadInputError as error:
            refused.append((offset, str(error), value))
            continue
        event["at"] = LOG_MS if event["at"] is None else event["at"]
        rows.append({**event, "offset": offset, "row": 0, "log_ms": LOG_MS})
    return rows, refused
