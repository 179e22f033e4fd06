"""Moments as events write them: RFC 3339 text to milliseconds since 1970. Pure, reads no clock."""

import re
from datetime import UTC, datetime, timedelta

AT_MIN_MS = 0
AT_MAX_MS = (2**32 - 1) * 1000 + 999
"""The last millisecond whose second fits ClickHouse's DateTime: 2106-02-07T06:28:15.999Z."""

# Written out with [0-9], since Python's \d also takes digits of other scripts. A bound on the
# fraction keeps a long text from being read at all.
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,32}))?(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse_rfc3339_ms(text: str) -> int | None:
    """Milliseconds since 1970, cut off below; None when it is not RFC 3339 text with an offset.

    Takes `T`, `t` or a space between date and time, and `Z` in either case. Leap seconds (`:60`)
    and year 0000 are not taken. The answer may lie outside AT_MIN_MS and AT_MAX_MS.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_h, off_min = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except ValueError:
        return None
    at_ms = (moment - _EPOCH) // _MILLISECOND
    if fraction is not None:
        at_ms += int(fraction[:3].ljust(3, "0"))
    if sign is not None:
        offset_ms = (int(off_h) * 60 + int(off_min)) * 60_000
        at_ms += -offset_ms if sign == "+" else offset_ms
    return at_ms
