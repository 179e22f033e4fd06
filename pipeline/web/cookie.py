"""The token as a cookie, for pages: a stream of events cannot send headers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE = "tally_token"

CHARS_MAX = 3_500
"""Browsers drop a cookie of more than 4096 bytes without a word."""

_READS = frozenset({"GET", "HEAD"})


def token_of_cookie(request: Request) -> str | None:
    """The token of whoever signed in; None for what is no read.

    So nothing is ever written because a browser brought the cookie along.
    """
    return request.cookies.get(COOKIE) if request.method in _READS else None


def set_cookie(request: Request, answer: Response, token: str) -> None:
    """Have the browser send the token with reads of pages of this site, until it is closed.

    No script can read it. Raises BadInputError for a token that is no cookie's value.
    """
    if len(token) > CHARS_MAX or not all(char.isalnum() or char in "-._~+/=" for char in token):
        raise BadInputError(f"a page takes tokens of at most {CHARS_MAX} plain characters")
    answer.set_cookie(
        COOKIE, token, path="/", httponly=True, samesite="strict", secure=_is_https(request)
    )


def forget_cookie(request: Request, answer: Response) -> None:
    """Have the browser forget it."""
    answer.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=_is_https(request)
    )


def _is_https(request: Request) -> bool:
    """Also as a proxy says it. Who says so untruthfully only keeps the cookie from themselves."""
    forwarded = request.headers.get("x-forwarded-proto", "")
    return request.url.scheme == "https" or forwarded.strip().lower() == "https"
