"""Who asks, and what they may: a dependency of every route."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.requests import Request

from pipeline.access.grant import ALL, Grant, Rights
from pipeline.access.sites import check_site
from pipeline.web.cookie import token_of_cookie

EVERYBODY = Grant("everybody", Rights(admin=frozenset({ALL})))
"""Without tokens: only whoever reaches the loopback address can ask, and may do everything."""

_SCHEME = "bearer "


async def caller(request: Request) -> Grant:
    """What the sender of this request may do; one request is taken off its rate.

    Raises NoTokenError, BadTokenError, TooFastError; without tokens, NotAllowedError for what a
    page of another site sends.
    """
    services = request.app.state.services
    if services.access is None:
        check_site(request.headers)
        return EVERYBODY
    header = request.headers.get("authorization", "")
    has_header = header.lower().startswith(_SCHEME)
    token = header[len(_SCHEME) :].strip() if has_header else token_of_cookie(request)
    found: Grant = services.access.grant_of(token)
    return found


Caller = Annotated[Grant, Depends(caller)]

SHOWN_IN_DOCS = HTTPBearer(auto_error=False, description="A token of `tally token add`, or a JWT.")
"""So that /docs has a field for the token; `caller` is what checks it."""


def family_of(counter: str) -> str:
    """The part of the counter before the first colon."""
    return counter.partition(":")[0]
