"""Which rows a new build is given by the one before, table by table."""

from __future__ import annotations

_SLOT = "slot < toDateTime({moment}, 'UTC')"
_SLOT_DAY = "slot_day < toDate(toDateTime({moment}, 'UTC'))"
_SLOT_MONTH = "slot_month < toStartOfMonth(toDateTime({moment}, 'UTC'))"
_FINAL = (
    "slot_day < if(grain = 'life', toStartOfMonth(toDateTime({moment}, 'UTC')), "
    "toDate(toDateTime({moment}, 'UTC')))"
)
_WINDOW = "window < toDateTime({moment}, 'UTC')"
_LOG_TIME = "log_time < toDateTime({moment}, 'UTC')"
_FIRST = "first < toDateTime({moment}, 'UTC')"
_ALL = "true"

CARRIED = {
    # These say what hours, days and lifetime totals hold for good. So they are copied first: what
    # they say holds of whatever is copied later.
    "rolled_shards": _ALL,
    "final_days": _FINAL,
    # Says which rows that were set aside are in the tables again, so it comes before these, too.
    "put_back": _LOG_TIME,
    "cells_1m": _SLOT,
    "distinct_1m": _SLOT_DAY,
    "trend_members": _SLOT_DAY,
    "frequency_1m": _SLOT,
    "heavy_1m": _SLOT,
    "slots": _SLOT,
    "cells_1h": _SLOT_DAY,
    "distinct_1h": _SLOT_DAY,
    "frequency_1h": _SLOT_DAY,
    "heavy_1h": _WINDOW,
    "cells_1d": _SLOT_DAY,
    "distinct_1d": _SLOT_DAY,
    "frequency_1d": _SLOT_DAY,
    "heavy_1d": _WINDOW,
    "cells_life": _SLOT_MONTH,
    "frequency_life": _SLOT_MONTH,
    # Written down with every flush, so copies of rolled-up rows leave nothing in these.
    "frequency_widths": _FIRST,
    "newest_windows": _ALL,
    "dead_letters": _LOG_TIME,
    "adjustments": _LOG_TIME,
}
"""The tables that are carried over, in this order, and which of their rows are older."""

CUT = {
    "rolled_shards": {
        "log_time": "least(log_time, toDateTime64({moment}, 3, 'UTC'))",
    },
}
"""Columns that are not carried over as they are: the new build rolls up by itself what it counts by
itself."""

TRENDS = {
    "trend_scores": _ALL,
    "trend_families": _ALL,
    "trend_provisional": _ALL,
    "trend_open": _ALL,
    "trend_windows": _ALL,
}
"""What trended is history: whole, whatever the new build counts. The windows say that the rest is
there, so they are last."""

_SINCE = "window >= toDateTime({moment}, 'UTC')"
NEW_TRENDS = TRENDS | {"trend_scores": _SINCE, "trend_windows": _SINCE}
"""Of that, what was scored since a moment."""
