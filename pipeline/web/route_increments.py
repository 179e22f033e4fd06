"""Writes: one increment, or many as lines. Each is answered with its receipt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from pipeline.access.errors import NotAllowedError
from pipeline.access.grant import Grant
from pipeline.errors import BadInputError
from pipeline.metrics.definitions import web as metric
from pipeline.produce.checking import RefusedLine
from pipeline.web import bulk, documents, route_strict
from pipeline.web.answering import unkept
from pipeline.web.callers import Caller, family_of
from pipeline.web.callers import caller as caller_of
from pipeline.web.limits import BULK_BYTES_MAX, INCREMENT_BYTES_MAX, read_body
from pipeline.web.questions import Counter, path_counter
from schemas.events import check_event

if TYPE_CHECKING:
    from pipeline.web.services import Services

# Bodies are read by the routes themselves, after the caller's rights are known and within bounds:
# FastAPI would read them first and whole.
router = APIRouter(prefix="/api/v1", tags=["writes"])

REASONS_MAX = 20
"""How many refused lines are named."""

_EVENT = {
    "requestBody": {
        "required": False,
        "description": "delta, at, member, region, id: all may be left out.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "delta": {"type": "integer"},
                        "at": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                        "member": {"type": "string"},
                        "region": {"type": "string"},
                        "id": {"type": "string"},
                    },
                }
            }
        },
    }
}
_LINES = {
    "requestBody": {
        "required": True,
        "description": "One JSON event per line, as the topic takes them.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}


class ShardHint(BaseModel):
    """At least so many shards, or as many as a rate needs."""

    n: int | None = Field(default=None, ge=1, le=4096)
    expect: float | None = Field(default=None, gt=0, le=1e12, description="Increments a second.")
    for_s: int = Field(default=86_400, ge=1, le=31_536_000, description="How long it holds.")


_HINT = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": ShardHint.model_json_schema()}},
    }
}


@router.post(
    "/counters/{counter:path}/increment",
    response_model=documents.Receipt | documents.Decision,
    openapi_extra=_EVENT,
)
async def increment(request: Request, counter: Counter, caller: Caller) -> Response:
    """Add to a counter. The answer comes when the log has it, with its receipt.

    A refused increment is answered as such, with the reason, and nothing is written. If the log
    does not confirm in time, 504 says that nobody knows: with an `id` it is safe to send it again.
    Of a strict family it is a command, with the answer that /decrement has.
    """
    caller.require("write", family_of(counter))
    services: Services = request.app.state.services
    fields = _fields(await read_body(request, INCREMENT_BYTES_MAX))
    try:
        event = check_event({**fields, "counter": counter})
        if (why := await services.timely.refusal(counter, event.at)) is not None:
            raise BadInputError(why)
    except BadInputError:
        services.metrics.add(metric.INCREMENTS("refused"))
        raise
    producer = await services.producer()
    if producer.rules.of(counter).strict is not None:
        return await route_strict.increment(request, event)
    try:
        receipt = producer.increment(
            event.counter,
            event.delta,
            member=event.member,
            region=event.region,
            at=event.at,
            id=event.id,
        )
    except BadInputError:
        services.metrics.add(metric.INCREMENTS("refused"))
        raise
    places = await receipt
    services.metrics.add(metric.INCREMENTS("accepted"))
    return unkept({"receipt": str(places)})


INCREMENT = next(one for one in router.routes if getattr(one, "endpoint", None) is increment)
"""The route of single increments."""


async def plain_increment(request: Request) -> Response:
    """`increment`, with what it depends on read as FastAPI does, in the same order."""
    counter = await path_counter(request.path_params["counter"])
    return await increment(request, counter, await caller_of(request))


@router.post("/increments", response_model=documents.Bulk, openapi_extra=_LINES)
async def increments(request: Request, caller: Caller) -> Response:
    """Many increments at once. Lines that are no event are refused, each with its reason.

    If the token may not write one of the families, nothing is written at all.
    """
    if not caller.rights.families("write"):
        raise NotAllowedError(f"{caller.name} may not write any family")
    services: Services = request.app.state.services
    with services.bulk_room.taken():
        return await _increments(request, caller, services)


async def _increments(request: Request, caller: Grant, services: Services) -> Response:
    body = await read_body(request, BULK_BYTES_MAX)
    checked = await asyncio.to_thread(bulk.checked, body, services.clock.now_ms())
    for family in checked.families:
        caller.require("write", family)
    producer = await services.producer()
    odd = await asyncio.to_thread(producer.refusals, checked.columns)
    bad = {**dict(await services.timely.refused(checked.columns)), **dict(odd)}
    bad |= await asyncio.to_thread(bulk.of_strict, checked.columns, producer.rules)
    columns = bulk.without(checked.columns, sorted(bad))
    lines = (RefusedLine(checked.numbers[row], why) for row, why in bad.items())
    refused = [*checked.refused, *lines]
    services.metrics.add(metric.INCREMENTS("refused"), len(refused))
    receipt = await asyncio.to_thread(producer.increment_many, columns)
    places = await receipt
    services.metrics.add(metric.INCREMENTS("accepted"), columns.num_rows)
    reasons = [{"line": one.number, "reason": one.reason} for one in sorted(refused)[:REASONS_MAX]]
    document = {
        "receipt": str(places),
        "accepted": columns.num_rows,
        "refused": len(refused),
        "reasons": reasons,
    }
    return unkept(document)


@router.post("/counters/{counter:path}/shards", status_code=204, openapi_extra=_HINT)
async def shards(request: Request, counter: Counter, caller: Caller) -> Response:
    """Ask for shards before they are needed, for a celebrity's post. Producers follow soon."""
    caller.require("admin", family_of(counter))
    services: Services = request.app.state.services
    hint = _hint(await read_body(request, INCREMENT_BYTES_MAX))
    producer = await services.producer()
    await asyncio.to_thread(
        lambda: producer.hint(counter, n=hint.n, expect=hint.expect, for_ms=hint.for_s * 1000)
    )
    return Response(status_code=204)


def _hint(body: bytes) -> ShardHint:
    try:
        return ShardHint.model_validate(bulk.document(body))
    except ValidationError as error:
        reasons = [f"{one['loc'][0]}: {one['msg']}" for one in error.errors()]
        raise BadInputError("; ".join(reasons)) from None


def _fields(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    fields = bulk.document(body)
    if "counter" in fields:
        raise BadInputError("counter: it is in the path already")
    return fields
