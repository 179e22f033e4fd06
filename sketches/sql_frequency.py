"""Where a counter is in the sketches of counts, as a SQL function over tally.frequency_*.

    tallyBuckets(counter, width, rows)  -> Array(UInt32), one bucket per row: row * width + column

The numbers are those of `buckets_of` in sketches/frequency.py. Additions to a counter, of what was
ever sketched of a family with an error of 0.002, which makes a width of 1360:

    SELECT min(sum) FROM (
        SELECT intDiv(bucket, width) AS row, sum(p) AS sum FROM tally.merged_frequency_life
        WHERE build = 1 AND family = 'views' AND width = 1360
            AND has(tallyBuckets('views:home', 1360, 6), bucket)
        GROUP BY row)
"""

from __future__ import annotations

from sketches.frequency import MULTIPLIERS

_MULTIPLIERS = ", ".join(f"toUInt64({multiplier})" for multiplier in MULTIPLIERS.tolist())

# Products of UInt64 wrap, as numpy's do.
_BUCKETS = f"""CREATE OR REPLACE FUNCTION tallyBuckets AS (counter, width, rows) ->
    arrayMap((multiplier, row) -> toUInt32(row * width + bitShiftRight(
        bitShiftRight(cityHash64(counter) * multiplier, 32) * toUInt64(width), 32)),
        arraySlice([{_MULTIPLIERS}], 1, rows), range(rows))"""

FUNCTIONS: tuple[str, ...] = (_BUCKETS,)
"""Statements that make the functions; running them again changes nothing."""
