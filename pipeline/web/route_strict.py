"""Commands to strict counters: each is decided once, and its answer stands."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.errors import BadInputError, TryAgainError
from pipeline.metrics.definitions import web as metric
from pipeline.strict.answers import NotDecidedYetError
from pipeline.web import bulk, documents
from pipeline.web.answering import unkept
from pipeline.web.callers import Caller, family_of
from pipeline.web.limits import INCREMENT_BYTES_MAX, read_body
from pipeline.web.questions import Counter
from schemas.rules import parse_duration_ms
from schemas.strict import check_command

if TYPE_CHECKING:
    from pipeline.rules import FamilyRules
    from pipeline.web.services import Services
    from schemas.events import Event

router = APIRouter(prefix="/api/v1", tags=["strict"])

_ID = {"type": "string", "description": "The same id has the same answer; made if left out."}
_AMOUNT = {"type": "integer", "default": 1, "description": "All of it is granted, or nothing."}


def _body(example: dict[str, Any], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"amount": _AMOUNT, **properties, "id": _ID}}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": False, "content": content}}


_DECREMENT = _body(
    {"amount": 2, "id": "order-8471"},
    floor={"type": "integer", "default": 0, "description": "The value never goes below it."},
)
_ACQUIRE = _body(
    {"limit": 100, "window": "1m", "id": "request-5f0c"},
    limit={"type": "integer", "description": "In any window; the family's if left out."},
    window={
        "anyOf": [{"type": "string"}, {"type": "integer"}],
        "description": '"30s", "10m", ... or milliseconds; the family\'s if left out.',
    },
)


@router.post(
    "/counters/{counter:path}/decrement",
    response_model=documents.Decision,
    openapi_extra=_DECREMENT,
)
async def decrement(request: Request, counter: Counter, caller: Caller) -> Response:
    """Take from a counter, unless it would go below the floor: inventory that is never oversold.

    Both answers are 200: `accepted` says which. After a 504, or none at all, ask again with the
    same id: it is decided once.
    """
    fields = await _fields(request, counter, caller, {"amount", "floor", "id"})
    return await _answered(request, {**fields, "op": "decrement", "counter": counter})


@router.post(
    "/counters/{counter:path}/acquire", response_model=documents.Decision, openapi_extra=_ACQUIRE
)
async def acquire(request: Request, counter: Counter, caller: Caller) -> Response:
    """Acquire so much of a limit per window, fixed or sliding as the family says: a rate limit.

    Both answers are 200, as of a decrement.
    """
    fields = await _fields(request, counter, caller, {"amount", "limit", "window", "id"})
    rules = await _strict_rules(request, counter)
    assert rules.strict is not None
    fields["window_ms"] = _window_ms(fields.pop("window", None), rules.strict.window_ms)
    if fields.get("limit") is None:
        fields["limit"] = rules.strict.limit
    missing = [name for name in ("limit", "window_ms") if fields[name] is None]
    if missing:
        name = missing[0].removesuffix("_ms")
        raise BadInputError(f"{name}: missing, and the family {family_of(counter)} has none")
    fields["window"] = rules.strict.window
    return await _answered(request, {**fields, "op": "acquire", "counter": counter})


async def increment(request: Request, event: Event) -> Response:
    """Add to a strict counter; the caller's rights are known."""
    for name in ("at", "member", "region"):
        if getattr(event, name):
            raise BadInputError(f"{name}: a strict counter has none; leave it out")
    if event.delta < 0:
        raise BadInputError("delta: below zero; take from a strict counter by /decrement")
    fields = {"id": event.id, "op": "increment", "counter": event.counter, "amount": event.delta}
    return await _answered(request, fields)


async def _fields(
    request: Request, counter: str, caller: Caller, known: set[str]
) -> dict[str, Any]:
    caller.require("write", family_of(counter))
    body = await read_body(request, INCREMENT_BYTES_MAX)
    fields = bulk.document(body) if body.strip() else {}
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise BadInputError(f"{unknown[0]}: not known; there are {', '.join(sorted(known))}")
    return dict(fields)


async def _strict_rules(request: Request, counter: str) -> FamilyRules:
    services: Services = request.app.state.services
    rules = (await services.producer()).rules.of(counter)
    if rules.strict is None:
        raise BadInputError(
            f'counter: family {family_of(counter)} is not strict; set kind = "strict" for it in '
            "tally.toml and apply that (tally rules apply)"
        )
    return rules


def _window_ms(window: object, family_ms: int | None) -> object:
    if window is None:
        return family_ms
    if not isinstance(window, str):
        return window
    try:
        return parse_duration_ms(window)
    except ValueError as error:
        raise BadInputError(f"window: {error}") from None


async def _answered(request: Request, fields: dict[str, Any]) -> Response:
    services: Services = request.app.state.services
    rules = await _strict_rules(request, fields["counter"])
    assert rules.strict is not None
    command = check_command(
        {
            **fields,
            "id": uuid.uuid4().hex if fields.get("id") is None else fields["id"],
            "ids_kept": rules.strict.ids_kept,
            "ids_horizon_ms": rules.ids_horizon_ms,
        }
    )
    began_s = services.clock.monotonic_s()
    try:
        decision = await services.strict.ask(command, services.settings.strict_wait_s)
    except TryAgainError as error:
        if isinstance(error, NotDecidedYetError):
            services.metrics.add(metric.STRICT_ANSWERS("unknown"))
        raise
    services.metrics.observe(metric.STRICT_ANSWER_SECONDS(), services.clock.monotonic_s() - began_s)
    services.metrics.add(metric.STRICT_ANSWERS("accepted" if decision.accepted else "refused"))
    return unkept(
        {"accepted": decision.accepted, "remaining": decision.remaining, "id": command.id}
    )
