"""Rankings of families: the greatest, and what trends."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pipeline.errors import BadInputError
from pipeline.reads import families, trends
from pipeline.reads.top import ALL_REGIONS, top
from pipeline.reads.trends import Kind
from pipeline.web import documents
from pipeline.web.answering import answered
from pipeline.web.callers import Caller
from pipeline.web.questions import AskedPeriod, Family, K, Region, possible_moment_ms

router = APIRouter(prefix="/api/v1/families", tags=["rankings"])


@router.get("", response_model=documents.Families)
async def listed(request: Request, caller: Caller) -> Response:
    """The families that the caller may read."""
    names = await request.app.state.services.asking.ask(families.names)
    return answered(request, {"families": [name for name in names if caller.may("read", name)]})


@router.get("/{family}/top", response_model=documents.Top)
async def greatest(
    request: Request,
    family: Family,
    caller: Caller,
    region: Region,
    period: AskedPeriod,
    k: K = 10,
) -> Response:
    """The greatest counters in the last hour, or in another time."""
    caller.require("read", family)
    where = ALL_REGIONS if region is None else region
    question = partial(top, family=family, period=period, k=k, region=where)
    found = await request.app.state.services.asking.ask(question)
    return answered(request, found.document())


@router.get("/{family}/trending", response_model=documents.Trending)
async def trending(
    request: Request,
    family: Family,
    caller: Caller,
    region: Region,
    k: K = 10,
    at: Annotated[
        str | None, Query(description="By the minute that this time (UTC) is in.")
    ] = None,
    now: Annotated[bool, Query(description="By the minute that is not over: provisional.")] = False,
    kind: Annotated[list[Kind] | None, Query(description="Only these.")] = None,
) -> Response:
    """Counters that have clearly more than they should have, by the last minute that is over."""
    caller.require("read", family)
    if now and at is not None:
        raise BadInputError("give now or at, not both")
    question = trends.Question(
        family,
        k,
        ALL_REGIONS if region is None else region,
        None if at is None else possible_moment_ms(at),
        now,
        tuple(one for one in trends.KINDS if not kind or one in kind),
    )
    found = await request.app.state.services.asking.ask(partial(trends.trending, question=question))
    return answered(request, found.document())
