"""Dead letters: refused records, with their bytes, their place and a reason people understand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from pipeline.lanes import CONTENT_TYPE_HEADER, is_frame
from schemas.frames import FRAME_CONTENT_TYPE, read_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.fetches import Fetch
    from pipeline.lanes import Retry
    from pipeline.placing import Misplaced
    from pipeline.why_refused import Refused

TOPIC = "tally.dead-letters"

VALUE_BYTES_MAX = 1 << 20
"""What is kept of a refused record. Its place says where the whole is, while the log has it."""

SAMPLE_BYTES_MAX = 500
"""What of it stands in ClickHouse."""

MAX_BYTES = 2 * VALUE_BYTES_MAX
"""Of a dead letter with its headers, as the topic and its producer allow."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record, or one row of a frame as JSON. Its place tells repeated writes apart.

    `value` is cut off at a limit; `bytes_total` is what it was. `timestamp_ms` is the log's; of a
    record that was itself a retry, it is that of what it retried. `is_frame` tells how to read
    `value`.
    """

    partition: int
    offset: int
    row: int
    timestamp_ms: int
    reason: str
    value: bytes
    bytes_total: int
    is_frame: bool = False

    def key(self) -> bytes:
        """Its place: a repeated write after a crash has the same key."""
        return f"{self.partition}/{self.offset}/{self.row}".encode()

    def sample(self) -> str:
        """The beginning of it as text, for people to look at."""
        return self.value[:SAMPLE_BYTES_MAX].decode(errors="replace")

    def headers(self) -> list[tuple[str, bytes]]:
        """What goes beside its bytes."""
        return [
            ("tally-partition", str(self.partition).encode()),
            ("tally-offset", str(self.offset).encode()),
            ("tally-row", str(self.row).encode()),
            ("tally-reason", self.reason.encode()),
            ("tally-bytes", str(self.bytes_total).encode()),
            ("tally-timestamp", str(self.timestamp_ms).encode()),
            *([(CONTENT_TYPE_HEADER, FRAME_CONTENT_TYPE.encode())] if self.is_frame else []),
        ]


def dead_letters(
    fetch: Fetch,
    refused: Iterable[Refused],
    misplaced: Iterable[Misplaced],
    retries: Mapping[int, Retry],
) -> Iterator[DeadLetter]:
    """What the decoder and the shard refused of a fetch; `retries` as in Decoded."""
    records = fetch.records

    def letter(
        at: int, offset: int, row: int, reason: str, value: bytes, *, frame: bool = False
    ) -> DeadLetter:
        retry = retries.get(offset)
        return DeadLetter(
            records.partition,
            offset,
            row,
            int(records.timestamps_ms[at]) if retry is None else retry.timestamp_ms,
            reason,
            value[:VALUE_BYTES_MAX],
            len(value),
            frame,
        )

    bad_ones = list(refused)
    places = np.searchsorted(records.offsets, [bad.offset for bad in bad_ones]).tolist()
    for at, bad in zip(places, bad_ones, strict=True):
        yield letter(at, bad.offset, bad.row, bad.reason, bad.value, frame=bad.is_frame)
    for offset, grouped in groupby(misplaced, key=attrgetter("offset")):
        at, strays = int(np.searchsorted(records.offsets, offset)), list(grouped)
        value = records.values[at] or b""
        if not is_frame(records.headers[at]):
            yield from (letter(at, *stray, value) for stray in strays)
            continue
        # Of a frame with many strays each letter would otherwise hold all the others, too.
        documents = read_frame(value).documents([stray.row for stray in strays])
        for stray, document in zip(strays, documents, strict=True):
            yield letter(at, *stray, _as_json(document))


def _as_json(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
