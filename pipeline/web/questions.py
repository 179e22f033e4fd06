"""What requests ask for, read and checked. Raises BadInputError, which is answered as 422."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Header, Path, Query

from pipeline.errors import BadInputError
from pipeline.producer.receipts import Places
from pipeline.reads.asked import duration_ms, moment_ms
from pipeline.reads.family_windows import Period
from pipeline.web.limits import RECEIPT_CHARS_MAX
from schemas.events import ALL_REGIONS, REGION_MAX_BYTES, check_event

WAIT_S = 10.0
WAIT_S_MAX = 30.0
K_MAX = 1_000
FAMILY_BYTES_MAX = 255

GrainName = Literal["1m", "1h", "1d"]

# The patterns are told, not checked: here the text still has its percent signs.
_COUNTER: dict[str, Any] = {
    "description": "family:key; a slash in it may be written as %2F",
    "min_length": 1,
    "json_schema_extra": {"pattern": "^[^:]+:.+$"},
}
_FAMILY: dict[str, Any] = {"min_length": 1, "json_schema_extra": {"pattern": "^[^:]+$"}}


def text_of(part: str) -> str:
    """A part of the path, which arrives with its percent signs. Raises BadInputError."""
    try:
        # It holds bytes as they came, one for each character.
        return unquote_to_bytes(part.encode("latin-1")).decode()
    except UnicodeError:
        raise BadInputError("the path is not UTF-8 text") from None


async def path_counter(counter: Annotated[str, Path(**_COUNTER)]) -> str:
    """The counter in the path, by the rules of events."""
    return checked_counter(text_of(counter))


@lru_cache(maxsize=10_000)
def checked_counter(text: str) -> str:
    """A counter as events may name it. Raises BadInputError."""
    return check_event({"counter": text}).counter


async def path_family(family: Annotated[str, Path(**_FAMILY)]) -> str:
    """The family in the path."""
    return checked_family(text_of(family))


def checked_family(text: str) -> str:
    """A family's name. Raises BadInputError."""
    if not text or ":" in text or "\0" in text or len(text.encode()) > FAMILY_BYTES_MAX:
        raise BadInputError(f"a family is 1 to {FAMILY_BYTES_MAX} bytes without ':'")
    return text


async def asked_region(
    region: Annotated[str | None, Query(description="Only this region; * is all of them.")] = None,
) -> str | None:
    """The region, None for all of them."""
    return checked_region(region)


def checked_region(region: str | None) -> str | None:
    """None for all of them. Raises BadInputError."""
    if region is None or region == ALL_REGIONS:
        return None
    if len(region.encode(errors="replace")) > REGION_MAX_BYTES or "\0" in region:
        raise BadInputError(f"region: at most {REGION_MAX_BYTES} bytes, without NUL")
    return region


async def asked_receipt(
    after: Annotated[
        str | None,
        Query(description="A receipt: answer when what it stands for is counted."),
    ] = None,
) -> Places:
    """The places of a receipt; none when it is left out."""
    return checked_places("after", after)


async def session(
    tally_session: Annotated[
        str | None,
        Header(description="As the last answer had it: no answer is older than that one."),
    ] = None,
) -> Places:
    """The places that the client's last answer held; none when it is left out."""
    return checked_places("Tally-Session", tally_session)


def checked_places(name: str, text: str | None) -> Places:
    """The places that a text stands for; none when there is none. Raises BadInputError."""
    if not text:
        return Places()
    if len(text) > RECEIPT_CHARS_MAX:
        raise BadInputError(f"{name}: longer than {RECEIPT_CHARS_MAX} characters")
    try:
        return Places.parse(text)
    except BadInputError as error:
        raise BadInputError(f"{name}: {error}") from None


async def asked_period(
    window: Annotated[
        GrainName | None, Query(description="The family's newest minute, hour or day.")
    ] = None,
    at: Annotated[
        str | None, Query(description="With window: the one that this time (UTC) is in.")
    ] = None,
    last: Annotated[
        str | None, Query(description="Sliding: 60m, 24h, 7d, ...; 1h if left out.")
    ] = None,
) -> Period:
    """The time of a ranking."""
    if window is None:
        if at is not None:
            raise BadInputError("at needs window: 1m, 1h or 1d")
        return Period() if last is None else Period(last_ms=duration_ms(last))
    if last is not None:
        raise BadInputError("give window or last, not both")
    return Period(grain=window, at_ms=None if at is None else possible_moment_ms(at))


def possible_moment_ms(text: str) -> int:
    """A time (UTC) that windows may have. Raises BadInputError."""
    at_ms = moment_ms(text)
    if not 0 <= at_ms < 2**32 * 1000:
        raise BadInputError("at: outside the years 1970 to 2106")
    return at_ms


Counter = Annotated[str, Depends(path_counter)]
Family = Annotated[str, Depends(path_family)]
Region = Annotated[str | None, Depends(asked_region)]
After = Annotated[Places, Depends(asked_receipt)]
Session = Annotated[Places, Depends(session)]
AskedPeriod = Annotated[Period, Depends(asked_period)]
Wait = Annotated[float, Query(ge=0, le=WAIT_S_MAX, description="Seconds to wait for that at most.")]
K = Annotated[int, Query(ge=1, le=K_MAX, description="So many of them.")]
