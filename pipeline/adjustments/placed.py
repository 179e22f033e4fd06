"""Adjustments among a fetch's control records: where they are, and those that are none. Pure.

A shard keeps an adjustment only until a flush has confirmed it. It needs no changelog: an offset is
committed after a flush that confirmed everything below it, and what was not committed is read again
by whoever comes next, as the same row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.errors import BadInputError
from pipeline.rules import EARLINESS_MS
from pipeline.why_refused import Refused
from schemas.adjustments import (
    ADJUSTMENT_KIND,
    ADJUSTMENT_REASON,
    Adjustment,
    read_adjustment,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.decode import Control
    from schemas.records import Records

EARLY_REASON = f"{ADJUSTMENT_REASON}window: more than 5 minutes ahead of the log's time"


class Placed(NamedTuple):
    """An adjustment at its place in a partition, and log time there."""

    offset: int
    log_ms: int
    adjustment: Adjustment


def placed_adjustments(
    control: Sequence[Control], records: Records, log_ms: int
) -> tuple[list[Placed], list[Refused]]:
    """The adjustments among control records in log order, and those that cannot be read.

    `records` is the fetch they are of, `log_ms` log time before it. Never raises.
    """
    placed: list[Placed] = []
    refused: list[Refused] = []
    found = [one for one in control if one.kind == ADJUSTMENT_KIND]
    if not found:
        return placed, refused
    log_times = np.maximum.accumulate(np.maximum(records.timestamps_ms, log_ms))
    for one in found:
        at_ms = int(log_times[np.searchsorted(records.offsets, one.offset)])
        try:
            adjustment = read_adjustment(one.value or b"")
            if (adjustment.window or 0) > at_ms + EARLINESS_MS:
                raise BadInputError(EARLY_REASON)
        except BadInputError as error:
            refused.append(Refused(one.offset, 0, str(error), one.value or b""))
        else:
            placed.append(Placed(one.offset, at_ms, adjustment))
    return placed, refused
