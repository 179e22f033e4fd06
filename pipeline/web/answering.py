"""Documents as HTTP answers: JSON, with what edges and browsers need to keep them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

SESSION_HEADER = "Tally-Session"
"""Of answers and requests: the last places in the log that a client has seen counted. Sent back, no
answer is older than what it has seen."""

_AGES = frozenset({"staleness_ms", "as_of", "since"})
"""What moves with the clock alone: also the beginning of a sliding time."""


def answered(
    request: Request,
    document: Mapping[str, Any],
    *,
    max_age_s: int = 0,
    session: str | None = None,
) -> Response:
    """The document; 304 without it when the client has it already.

    The tag is weak: it leaves out how old the answer is, which changes while nothing else does.
    """
    same = msgspec.json.encode(without_ages(document))
    tag = f'W/"{hashlib.blake2b(same, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, **kept_by(request, max_age_s)}
    if session is not None:
        headers[SESSION_HEADER] = session
    if _has(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(msgspec.json.encode(document), 200, headers, media_type="application/json")


def without_ages(document: Any) -> Any:
    """What an answer says but for how old it is, also where it has several answers in it. Pure."""
    if isinstance(document, dict):
        return {name: without_ages(value) for name, value in document.items() if name not in _AGES}
    if isinstance(document, list):
        return [without_ages(value) for value in document]
    return document


def kept_by(request: Request, max_age_s: int = 0) -> dict[str, str]:
    """The headers that say who may keep an answer and for how long.

    With tokens it is one caller's alone, and no shared cache may keep it. One that was made without
    a session, or for another, is no answer to a request with this one.
    """
    whose = "private" if request.app.state.services.access is not None else "public"
    kept = f"{whose}, max-age={max_age_s}" if max_age_s > 0 else f"{whose}, no-cache"
    return {"Cache-Control": kept, "Vary": f"Accept, Authorization, Cookie, {SESSION_HEADER}"}


def _has(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    opaque = tag.removeprefix("W/")
    tags = (one.strip().removeprefix("W/") for one in header.split(","))
    return header.strip() == "*" or opaque in tags


def unkept(document: Mapping[str, Any], status: int = 200) -> Response:
    """The document, for nobody to keep: of what was written, or is of this moment alone."""
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")
