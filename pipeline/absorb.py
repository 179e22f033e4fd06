"""One fetch into one shard: decoded, counted, and what could not be counted. Pure.

The same for every owner and every build: the fetch and the shard decide, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.adjustments.placed import placed_adjustments
from pipeline.dead_letters import DeadLetter, dead_letters
from pipeline.decode import Control, decode
from pipeline.errors import BadInputError, ShardRefusedError
from pipeline.ledger import log_times
from pipeline.refused import WHOLE_RECORD
from pipeline.rules import RULES_KIND, CountingRules, NewerRulesError, parse_rules
from pipeline.shard import Fetched, Row
from pipeline.why_refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.fetches import Fetch
    from pipeline.shard import Shard

HEARTBEAT_KIND = "heartbeat"
"""The value of the header `tally-kind` of a heartbeat: it moves log time, and tells freshness."""

FLUSH_KIND = "flush"
"""The value of the header `tally-kind` of a request to flush: somebody waits for a live read. It
changes no count."""

FEW_ROWS = 100
"""Up to so many rows are counted one by one: columns have a fixed cost per fetch."""


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What came of a fetch, beside the cells: rows counted, what was refused, heartbeats' times,
    and whether somebody asked for a flush. `controls` are records that are no increments, of which
    something is kept until it is written, too."""

    rows: int
    dead_letters: list[DeadLetter]
    heartbeats_ms: list[int]
    flush_asked: bool
    controls: int = 0


def absorb(shard: Shard, fetch: Fetch) -> Absorbed:
    """Count what the fetch holds from the shard's position on, and move the position past it.

    Raises ShardRefusedError, having counted nothing, when there is a gap before the fetch, or rules
    of a newer Tally in it.
    """
    if fetch.start > shard.position:
        raise ShardRefusedError(
            shard.partition,
            f"it is counted up to offset {shard.position}, but what the log has next begins at "
            f"{fetch.start}; if records were deleted before they were counted, "
            "`tally accept-log` goes on with what is there",
        )
    start, records = shard.position, fetch.records
    decoded = fetch.decoded or decode(records)
    control = [one for one in decoded.control if one.offset >= start]
    try:
        rules, bad_rules = _rules(control)
    except NewerRulesError as error:
        raise ShardRefusedError(shard.partition, f"it has {error}") from error
    adjustments, bad_adjustments = placed_adjustments(control, records, shard.log_ms)
    bad = [*decoded.refused, *bad_rules, *bad_adjustments]
    refused = [one for one in bad if one.offset >= start]
    columns = decoded.columns
    if fetch.start < start:
        columns = columns.filter(pc.field("offset") >= pa.scalar(start))
    first = int(np.searchsorted(records.offsets, start))
    log_ms = shard.log_ms
    fetched = Fetched(
        records.offsets[first:],
        records.timestamps_ms[first:],
        fetch.next_offset,
        rules,
        sorted((one.offset, WHOLE_RECORD if one.is_frame else one.row) for one in refused),
        decoded.retries,
    )
    if columns.num_rows <= FEW_ROWS or fetched.retries:
        misplaced = shard.absorb_rows(_rows(columns), fetched)
    else:
        misplaced = shard.absorb_columns(columns, fetched)
    shard.last_batch = fetch.last_batch or shard.last_batch
    shard.adjust(adjustments)
    letters = dead_letters(fetch, refused, misplaced, decoded.retries)
    return Absorbed(
        columns.num_rows,
        _counted(letters, fetched, log_ms, shard.counts_from_ms),
        [one.timestamp_ms for one in control if one.kind == HEARTBEAT_KIND],
        any(one.kind == FLUSH_KIND for one in control),
        len(control),
    )


def _counted(
    letters: Iterable[DeadLetter], fetched: Fetched, log_ms: int, counts_from_ms: int
) -> list[DeadLetter]:
    """The letters of records that the log got from a moment on; `log_ms` is log time before them.

    A letter's own time does not tell: that of a retry is the time of what it retried.
    """
    found = list(letters)
    if not counts_from_ms or not found:
        return found
    at_ms = log_times(fetched.timestamps_ms, log_ms)
    places = np.searchsorted(fetched.offsets, [one.offset for one in found])
    return [one for one, at in zip(found, places, strict=True) if at_ms[at] >= counts_from_ms]


def _rows(columns: pa.Table) -> list[Row]:
    names = ("offset", "row", "counter", "region", "at", "delta", "id", "member")
    return list(map(Row._make, zip(*(columns[name].to_pylist() for name in names), strict=True)))


def _rules(
    control: list[Control],
) -> tuple[list[tuple[int, CountingRules]], list[Refused]]:
    """The rules records among control records by offset, and those that cannot be read."""
    rules, refused = [], []
    for record in control:
        if record.kind == RULES_KIND:
            try:
                rules.append((record.offset, parse_rules(record.value or b"")))
            except BadInputError as error:
                refused.append(Refused(record.offset, 0, str(error), record.value or b""))
    return rules, refused
