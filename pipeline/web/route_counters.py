"""Reads of counters: totals in each mode, windows, uniques, many at once, all of one key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pipeline.errors import BadInputError
from pipeline.producer.receipts import Places
from pipeline.reads.asked import asked_span
from pipeline.reads.counts import Question, count
from pipeline.reads.last_places import united
from pipeline.reads.spans import FOREVER_MS
from pipeline.reads.uniques import Question as UniquesQuestion
from pipeline.reads.uniques import uniques
from pipeline.web import documents
from pipeline.web.answering import answered, kept_by
from pipeline.web.cached_question import CACHED_PARAMETERS, cached_question
from pipeline.web.callers import Caller, family_of
from pipeline.web.counting import Asked, Counted
from pipeline.web.exports import Format, accepted, exported
from pipeline.web.limits import COUNTERS_MAX
from pipeline.web.questions import (
    WAIT_S,
    After,
    Counter,
    GrainName,
    Region,
    Session,
    Wait,
    checked_counter,
    text_of,
)
from schemas.events import COUNTER_MAX_BYTES
from schemas.rules import GRAIN_MS

router = APIRouter(prefix="/api/v1", tags=["reads"])

WINDOWS_MAX = 100_000
"""How many windows one answer may have."""

_TOO_MANY = f"more than {WINDOWS_MAX:,} windows: ask for less time, or for coarser ones"

Last = Annotated[str | None, Query(description="Only the last 60m, 24h, 7d, ...")]
Since = Annotated[str | None, Query(description="From this time on (UTC).")]
Until = Annotated[str | None, Query(description="Up to, not including, this time.")]


@router.get("/counters", response_model=documents.Counts)
async def many(
    request: Request,
    caller: Caller,
    counter: Annotated[list[str], Query(min_length=1, max_length=COUNTERS_MAX)],
    region: Region,
    seen: Session,
    mode: Literal["cached", "exact"] = "cached",
) -> Response:
    """Several counters at once."""
    counters = [checked_counter(one) for one in dict.fromkeys(counter)]
    for one in counters:
        caller.require("read", family_of(one))
    found = await _all(request, [Asked(one, region) for one in counters], seen, mode)
    document = {"counters": [each.answer.document() for each in found]}
    return answered(request, document, session=_session(seen, found))


@router.get("/keys/{key:path}", response_model=documents.Counts)
async def of_key(
    request: Request, key: str, caller: Caller, region: Region, seen: Session
) -> Response:
    """All families that have counted this key: likes, views and shares of one post.

    A family that is new is among them some seconds later.
    """
    services = request.app.state.services
    name = text_of(key)
    checked_counter(f"family:{name}")
    families = await services.families.names()
    asked = [
        Asked(f"{family}:{name}", region)
        for family in families
        if caller.may("read", family) and len(f"{family}:{name}".encode()) <= COUNTER_MAX_BYTES
    ]
    found = await _all(request, asked, seen, "cached")
    shown = [each.answer.document() for each in found if each.answer.net or each.answer.high]
    return answered(request, {"counters": shown}, session=_session(seen, found))


@router.get("/counters/{counter:path}/exact", response_model=documents.Count)
async def exact(
    request: Request,
    counter: Counter,
    caller: Caller,
    region: Region,
    after: After,
    seen: Session,
    wait: Wait = WAIT_S,
) -> Response:
    """Summed over all shards now."""
    caller.require("read", family_of(counter))
    wanted = Places(after)
    wanted.add(seen.items())
    services = request.app.state.services
    found = await services.counting.exact(Asked(counter, region), wanted, wait)
    return _counted(request, found, seen)


@router.get("/counters/{counter:path}/live", response_model=documents.Count)
async def live(
    request: Request,
    counter: Counter,
    caller: Caller,
    region: Region,
    seen: Session,
    wait: Wait = WAIT_S,
) -> Response:
    """Exact, after the owners of all shards have flushed what is in the log now."""
    caller.require("read", family_of(counter))
    found = await request.app.state.services.counting.live(Asked(counter, region), seen, wait)
    return _counted(request, found, seen)


@router.get("/counters/{counter:path}/windows", response_model=documents.Count)
async def windows(
    request: Request,
    counter: Counter,
    caller: Caller,
    region: Region,
    after: After,
    by: GrainName = "1m",
    last: Last = None,
    since: Since = None,
    until: Until = None,
    wait: Wait = WAIT_S,
    format: Annotated[  # noqa: A002 - as people write it
        Format | None, Query(description="json, csv or parquet; else the header Accept says.")
    ] = None,
) -> Response:
    """Its windows, and their sum; without a time, all of them."""
    caller.require("read", family_of(counter))
    services = request.app.state.services
    now_ms = services.clock.now_ms()
    span = asked_span(last, since, until, now_ms)
    if span is not None:
        until_ms = now_ms if span.until_ms == FOREVER_MS else span.until_ms
        if (until_ms - span.since_ms) // GRAIN_MS[by] > WINDOWS_MAX:
            raise BadInputError(_TOO_MANY)
    await services.counting.wait(after, wait)
    question = Question(counter, by, span, region)
    interval_ms = round(services.settings.rollup_interval_s * 1000)
    ask = partial(count, question=question, mode="exact", rollup_interval_ms=interval_ms)
    document = (await services.asking.ask(ask)).document()
    if len(document["windows"]) > WINDOWS_MAX:
        raise BadInputError(_TOO_MANY)
    wanted = format or accepted(request.headers.get("accept", ""))
    if wanted == "json":
        return answered(request, document)
    return await asyncio.to_thread(exported, document, wanted, kept_by(request))


@router.get("/counters/{counter:path}/uniques", response_model=documents.Uniques)
async def distinct(
    request: Request,
    counter: Counter,
    caller: Caller,
    region: Region,
    also: Annotated[
        list[str] | None, Query(max_length=100, description="Counters to unite it with.")
    ] = None,
    by: GrainName | None = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
) -> Response:
    """About how many distinct members, with bounds."""
    counters = (counter, *(checked_counter(one) for one in also or ()))
    for one in counters:
        caller.require("read", family_of(one))
    services = request.app.state.services
    span = asked_span(last, since, until, services.clock.now_ms())
    question = UniquesQuestion(counters, by, span, region)
    found = await services.asking.ask(partial(uniques, question=question))
    return answered(request, found.document())


@router.get(
    "/counters/{counter:path}", response_model=documents.Count, openapi_extra=CACHED_PARAMETERS
)
async def cached(request: Request) -> Response:
    """The total, from memory: at most as old as TALLY_CACHE_AGE_S says. With `after`, exact."""
    asked, after, seen, wait_s = await cached_question(request)
    services = request.app.state.services
    if after:
        after.add(seen.items())
        return _counted(request, await services.counting.exact(asked, after, wait_s), seen)
    found = await services.counting.cached(asked, seen)
    return _counted(request, found, seen, max_age_s=services.edge_age_s(found.asked_s))


async def _all(
    request: Request, asked: list[Asked], seen: Places, mode: Literal["cached", "exact"]
) -> list[Counted]:
    counting = request.app.state.services.counting
    if mode == "cached":
        questions = [counting.cached(one, seen) for one in asked]
    else:
        questions = [counting.exact(one, seen, WAIT_S) for one in asked]
    return list(await asyncio.gather(*questions))


def _counted(request: Request, found: Counted, seen: Places, max_age_s: int = 0) -> Response:
    document: dict[str, Any] = found.answer.document()
    # An edge's copy of a strict value would be older than what the session saw, and nothing tells.
    kept_s = max_age_s if found.answer.complete and not found.answer.is_strict else 0
    return answered(request, document, max_age_s=kept_s, session=_session(seen, [found]))


def _session(seen: Places, found: Sequence[Counted]) -> str:
    """What the client has seen, with these answers."""
    return str(united([seen, *(each.latest for each in found)]))


CACHED = next(one for one in router.routes if getattr(one, "endpoint", None) is cached)
"""The route of cached totals."""
