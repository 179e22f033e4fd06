"""For operators: health, status, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.errors import TallyError
from pipeline.metrics.exposition import exposition
from pipeline.web import documents
from pipeline.web.answering import unkept
from pipeline.web.callers import Caller

router = APIRouter(tags=["operations"])


@router.get(
    "/health", response_model=documents.Health, responses={503: {"model": documents.Health}}
)
async def health(request: Request) -> Response:
    """200 when counting goes on as it should, 503 with the problems when not. Needs no token."""
    try:
        found = await request.app.state.services.status.now()
    except TallyError as error:
        answer = unkept({"healthy": False, "problems": [str(error)], "remarks": []})
        answer.status_code = 503
        return answer
    answer = unkept(
        {"healthy": found.healthy, "problems": found.problems, "remarks": found.remarks}
    )
    answer.status_code = 200 if found.healthy else 503
    return answer


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
