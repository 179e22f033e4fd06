"""For operators, beside status: dead letters by reason, builds, the shard plan."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.web import page_documents as documents
from pipeline.web.answering import unkept
from pipeline.web.callers import Caller
from pipeline.web.operator_parts import dead_letters, listed_builds, shard_plan

router = APIRouter(prefix="/api/v1", tags=["operations"])


@router.get("/dead-letters", response_model=documents.DeadLetters)
async def letters(request: Request, caller: Caller) -> Response:
    """Refused events that wait, by reason, with the newest of each."""
    caller.require_all("read")
    services = request.app.state.services
    with services.operator_room.taken():
        return unkept(await asyncio.to_thread(dead_letters, services.settings))


@router.get("/builds", response_model=documents.Builds)
async def builds(request: Request, caller: Caller) -> Response:
    """Countings of the log: which one is live, and how far each is behind."""
    caller.require_all("read")
    services = request.app.state.services
    with services.operator_room.taken():
        return unkept(await asyncio.to_thread(listed_builds, services.settings, services.clock))


@router.get("/shards", response_model=documents.ShardPlan)
async def shards(request: Request, caller: Caller) -> Response:
    """Counters that are split, hinted or hot, with their shards and rates."""
    caller.require_all("read")
    services = request.app.state.services
    with services.operator_room.taken():
        return unkept(await asyncio.to_thread(shard_plan, services.settings, services.clock))
