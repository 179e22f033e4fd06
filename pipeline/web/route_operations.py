"""For operators: health, status, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.access.errors import BadTokenError, NotAllowedError, NoTokenError, TooFastError
from pipeline.errors import TallyError
from pipeline.metrics.exposition import exposition
from pipeline.web import documents
from pipeline.web.answering import unkept
from pipeline.web.callers import Caller, caller

router = APIRouter(tags=["operations"])


@router.get(
    "/health", response_model=documents.Health, responses={503: {"model": documents.Health}}
)
async def health(request: Request) -> Response:
    """200 when counting goes on as it should, 503 when not. Needs no token.

    The problems are told to whoever may read all families, as they have names; without tokens, not
    to pages of other sites.
    """
    try:
        found = await request.app.state.services.status.now()
        is_healthy, problems, remarks = found.healthy, found.problems, found.remarks
    except TallyError as error:
        is_healthy, problems, remarks = False, [str(error)], []
    document: dict[str, object] = {"healthy": is_healthy}
    if await _may_know(request):
        document |= {"problems": problems, "remarks": remarks}
    answer = unkept(document)
    answer.status_code = 200 if is_healthy else 503
    return answer


async def _may_know(request: Request) -> bool:
    try:
        return (await caller(request)).may_all("read")
    except (NoTokenError, BadTokenError, NotAllowedError, TooFastError):
        return False


@router.get("/api/v1/status")
async def status(request: Request, caller: Caller) -> Response:
    """Every shard, ages, freshness, dead letters, plan: what `tally status --json` prints."""
    caller.require_all("read")
    return unkept((await request.app.state.services.status.now()).document())


@router.get("/metrics")
async def metrics(request: Request, caller: Caller) -> Response:
    """For Prometheus: of this process, and of the whole pipeline."""
    caller.require_all("read")
    services = request.app.state.services
    accept = request.headers.get("accept", "")
    found = await asyncio.to_thread(exposition, services.metrics, accept)
    return Response(
        found.body, 200, {"Cache-Control": "no-store", "Content-Type": found.content_type}
    )
