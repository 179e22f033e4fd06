"""Signing in and out of the dashboard: the token becomes a cookie that no script can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.access.errors import BadTokenError, NotAllowedError, NoTokenError
from pipeline.errors import BadInputError
from pipeline.web import page_documents as documents
from pipeline.web.answering import unkept
from pipeline.web.callers import EVERYBODY, caller
from pipeline.web.cookie import forget_cookie, set_cookie
from pipeline.web.limits import INCREMENT_BYTES_MAX, read_body

if TYPE_CHECKING:
    from pipeline.access.grant import Grant
    from pipeline.web.services import Services

router = APIRouter(prefix="/session", tags=["dashboard"])

_OURS = frozenset({"same-origin", "none", ""})


class _SignIn(msgspec.Struct, forbid_unknown_fields=True):
    token: str


@router.get("", response_model=documents.SignedIn)
async def who(request: Request) -> Response:
    """Whether tokens are asked for, and who is signed in. Needs no token."""
    services: Services = request.app.state.services
    if services.access is None:
        return unkept(_signed_in(EVERYBODY, tokens=False))
    try:
        return unkept(_signed_in(await caller(request), tokens=True))
    except (NoTokenError, BadTokenError):
        return unkept(_signed_in(None, tokens=True))


@router.post(
    "",
    response_model=documents.SignedIn,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["token"],
                        "properties": {"token": {"type": "string"}},
                    }
                }
            },
        }
    },
)
async def sign_in(request: Request) -> Response:
    """Sign in with a token: sets a cookie that is taken for reads alone."""
    _check_ours(request)
    services: Services = request.app.state.services
    if services.access is None:
        raise BadInputError("no tokens are asked for here: there is nothing to sign in to")
    body = await read_body(request, INCREMENT_BYTES_MAX)
    try:
        token = msgspec.json.decode(body, type=_SignIn).token.strip()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInputError('send {"token": "..."} as JSON') from None
    answer = unkept(_signed_in(services.access.grant_of(token), tokens=True))
    set_cookie(request, answer, token)
    return answer


@router.delete("", response_model=documents.SignedIn)
async def sign_out(request: Request) -> Response:
    """Sign out: the browser forgets the token. It holds on until it is revoked."""
    _check_ours(request)
    answer = unkept(_signed_in(None, tokens=request.app.state.services.access is not None))
    forget_cookie(request, answer)
    return answer


def _check_ours(request: Request) -> None:
    """No other site's page may sign anybody in or out. Programs say nothing of a site."""
    if request.headers.get("sec-fetch-site", "") not in _OURS:
        raise NotAllowedError("requests of other sites' pages are refused")


def _signed_in(grant: Grant | None, *, tokens: bool) -> dict[str, object]:
    return {
        "tokens": tokens,
        "name": None if grant is None else grant.name,
        "reads_all": grant is not None and grant.may_all("read"),
    }
