"""NDJSON to the topic: each line is checked as the pipeline would check it, then sent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pipeline.decode import decode
from schemas.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pipeline.clock import Clock
    from pipeline.sender import Sender

CHUNK_LINES = 10_000
"""How many lines are checked together; with `frames`, also the most events in one frame."""


@dataclass(slots=True)
class Produced:
    """What became of the lines: sent, refused and reported, or sent without Kafka's word for it."""

    sent: int = 0
    refused: int = 0
    unknown: int = 0


def produce_lines(
    lines: Iterable[bytes],
    sender: Sender,
    clock: Clock,
    on_refused: Callable[[int, str], None],
    *,
    frames: bool,
) -> Produced:
    """Send every good line; tell `on_refused` the number and the reason of every other one.

    Returns when Kafka has confirmed what was sent, or given up on it. Blank lines are skipped. With
    `frames`, events without `at` get the time of this call; without, the log gives them its own.
    """
    result = Produced()
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    present = ((number, line) for number, line in numbered if line)
    while chunk := dict(islice(present, CHUNK_LINES)):
        decoded = decode(_as_records(chunk, clock.now_ms()))
        for bad in decoded.refused:
            on_refused(bad.offset, bad.reason)
        result.refused += len(decoded.refused)
        result.sent += decoded.columns.num_rows
        if frames:
            sender.send_frames(decoded.columns)
        else:
            good = [chunk[number] for number in decoded.columns["offset"].to_pylist()]
            sender.send_lines(good, decoded.columns)
    sender.flush()
    result.unknown = sender.unknown
    result.sent -= result.unknown
    return result


def _as_records(chunk: dict[int, bytes], now_ms: int) -> Records:
    """Lines stand in for records and their numbers for offsets, so that the pipeline's own decoder
    says what is wrong with which line."""
    return Records(
        partition=0,
        offsets=np.array(list(chunk), np.int64),
        timestamps_ms=np.full(len(chunk), now_ms, np.int64),
        keys=[None] * len(chunk),
        values=list(chunk.values()),
        headers=[()] * len(chunk),
    )
