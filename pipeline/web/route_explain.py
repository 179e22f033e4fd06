"""Why a counter has its value: where it comes from, what was corrected, and in which regions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pipeline.adjustments.history import history as made
from pipeline.reads.asked import asked_span
from pipeline.reads.explain import explain
from pipeline.reads.regions import by_region
from pipeline.web import page_documents as documents
from pipeline.web.answering import answered
from pipeline.web.callers import Caller, family_of
from pipeline.web.questions import Counter

router = APIRouter(prefix="/api/v1/counters", tags=["reads"])

HISTORY_MAX = 1_000


@router.get("/{counter:path}/explain", response_model=documents.Explained)
async def explained(
    request: Request,
    counter: Counter,
    caller: Caller,
    last: Annotated[str | None, Query(description="Only the last 60m, 24h, 7d, ...")] = None,
) -> Response:
    """Which shard saw how much of it, how late, what was skipped, refused or corrected."""
    caller.require("read", family_of(counter))
    services = request.app.state.services
    span = asked_span(last, None, None, services.clock.now_ms())
    found = await services.asking.ask(partial(explain, counter=counter, span=span))
    return answered(request, found.document())


@router.get("/{counter:path}/history", response_model=documents.History)
async def history(
    request: Request,
    counter: Counter,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=HISTORY_MAX, description="So many of them.")] = 100,
) -> Response:
    """Its adjustments, newest first: who, why, by how much."""
    caller.require("read", family_of(counter))
    asking = request.app.state.services.asking
    found = await asking.ask(partial(made, name=counter, limit=limit))
    return answered(request, {"adjustments": [one.document() for one in found]})


@router.get("/{counter:path}/regions", response_model=documents.Regions)
async def regions(request: Request, counter: Counter, caller: Caller) -> Response:
    """Its value by region, the greatest first."""
    caller.require("read", family_of(counter))
    found = await request.app.state.services.asking.ask(partial(by_region, counter=counter))
    return answered(request, {"counter": counter, "regions": [one.document() for one in found]})
