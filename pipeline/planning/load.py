"""What a producer reports of its load, about once a second, on the topic `tally.load`. Pure."""

from __future__ import annotations

from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import msgspec

from pipeline.errors import BadInputError
from schemas.events import COUNTER_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTERS_MAX = 100
"""How many counters a report names: more cannot be hot at once for one producer."""

BYTES_MAX = 512 * 1024

_PARTITIONS_MAX = 4096
_INTERVAL_MS_MAX = 3_600_000
_NUMBER_MAX = 2**53

_Producer = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=_NUMBER_MAX)]
_Counter = Annotated[str, msgspec.Meta(min_length=1, max_length=COUNTER_MAX_BYTES)]
_Counters = Annotated[list[tuple[_Counter, _Number]], msgspec.Meta(max_length=COUNTERS_MAX)]
_Partition = Annotated[int, msgspec.Meta(ge=0, lt=100_000)]
_Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class LoadReport(msgspec.Struct, frozen=True):
    """What one producer sent within an interval that ended at `at_ms`.

    `counters` are those it sent most rows of, heaviest first: rows as they were packed, after
    combining, of increments without an id, since those with one do not follow the plan. `rows` is
    of all counters, those too. `delivery_p99_ms` is by partition; `retries` is of all.
    """

    producer: _Producer
    at_ms: _Number
    interval_ms: Annotated[int, msgspec.Meta(ge=1, le=_INTERVAL_MS_MAX)]
    counters: _Counters
    rows: _Number
    delivery_p99_ms: Annotated[
        dict[_Partition, _Milliseconds], msgspec.Meta(max_length=_PARTITIONS_MAX)
    ] = {}
    retries: _Number = 0


_DECODER = msgspec.json.Decoder(LoadReport)


def heaviest(rows_by_counter: Mapping[str, int]) -> list[tuple[str, int]]:
    """The counters a report names, with their rows: the heaviest first."""
    return nlargest(COUNTERS_MAX, rows_by_counter.items(), key=itemgetter(1))


def encode(report: LoadReport) -> bytes:
    """A report as a record's value. What `decode` would refuse is the caller's mistake."""
    return msgspec.json.encode(report)


def decode(value: bytes) -> LoadReport:
    """The report in a record. Raises BadInputError for what is none, or beyond its bounds."""
    if len(value) > BYTES_MAX:
        raise BadInputError(f"not a load report: it has more than {BYTES_MAX} bytes")
    try:
        return _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"not a load report: {error}") from error
