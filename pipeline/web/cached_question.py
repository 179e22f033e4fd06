"""The question that is asked most, read by hand.

FastAPI takes several times as long to match parameters to a route's signature as the answer takes
from memory. So the route for cached totals has none; here they are read as the other routes have
them read, and described for OpenAPI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import BadInputError
from pipeline.web.answering import SESSION_HEADER
from pipeline.web.callers import caller, family_of
from pipeline.web.counting import Asked
from pipeline.web.questions import (
    WAIT_S,
    WAIT_S_MAX,
    checked_counter,
    checked_places,
    checked_region,
    text_of,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from pipeline.producer.receipts import Places


class CachedQuestion(NamedTuple):
    """Which total, after what, no older than what, and how long to wait for that."""

    asked: Asked
    after: Places
    seen: Places
    wait_s: float


async def cached_question(request: Request) -> CachedQuestion:
    """What a request for a total asks. Raises BadInputError, and what `caller` raises."""
    grant = await caller(request)
    counter = checked_counter(text_of(request.path_params["counter"]))
    grant.require("read", family_of(counter))
    query = request.query_params
    return CachedQuestion(
        Asked(counter, checked_region(query.get("region"))),
        checked_places("after", query.get("after")),
        checked_places(SESSION_HEADER, request.headers.get(SESSION_HEADER)),
        _seconds(query.get("wait")),
    )


def _seconds(text: str | None) -> float:
    if text is None:
        return WAIT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= WAIT_S_MAX:
        raise BadInputError(f"wait: expected seconds from 0 to {WAIT_S_MAX:g}")
    return seconds


def _parameter(name: str, place: str, kind: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": kind},
    }


CACHED_PARAMETERS: dict[str, Any] = {
    "parameters": [
        {
            **_parameter("counter", "path", "string", "family:key; a slash may be written as %2F"),
            "schema": {"type": "string", "minLength": 1, "pattern": "^[^:]+:.+$"},
        },
        _parameter("region", "query", "string", "Only this region; * is all of them."),
        _parameter("after", "query", "string", "A receipt: answer when that is counted."),
        {
            **_parameter("wait", "query", "number", "Seconds to wait for that at most."),
            "schema": {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX, "default": WAIT_S},
        },
        _parameter(SESSION_HEADER, "header", "string", "As the last answer had it."),
    ]
}
