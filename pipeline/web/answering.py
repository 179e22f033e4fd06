"""Documents as HTTP answers: JSON, with what edges and browsers need to keep them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

SESSION_HEADER = "tally-session"
"""Of answers and requests: the places that a client's last answer held. Sent back, no answer is
older than the last one."""

_AGES = ("staleness_ms", "as_of")


def answered(
    request: Request,
    document: Mapping[str, Any],
    *,
    max_age_s: int = 0,
    session: str | None = None,
) -> Response:
    """The document; 304 without it when the client has it already.

    The tag is weak: it leaves out how old the answer is, which changes while nothing else does.
    With tokens an answer is one caller's alone, and no shared cache may keep it.
    """
    same = {name: value for name, value in document.items() if name not in _AGES}
    tag = f'W/"{hashlib.blake2b(msgspec.json.encode(same), digest_size=12).hexdigest()}"'
    whose = "private" if request.app.state.services.access is not None else "public"
    kept = f"{whose}, max-age={max_age_s}" if max_age_s else f"{whose}, no-cache"
    headers = {"ETag": tag, "Cache-Control": kept}
    if whose == "private":
        headers["Vary"] = "Authorization"
    if session is not None:
        headers["Tally-Session"] = session
    if _has(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(msgspec.json.encode(document), 200, headers, media_type="application/json")


def _has(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    opaque = tag.removeprefix("W/")
    tags = (one.strip().removeprefix("W/") for one in header.split(","))
    return header.strip() == "*" or opaque in tags


def unkept(document: Mapping[str, Any]) -> Response:
    """The document, for nobody to keep: of what was written, or is of this moment alone."""
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), 200, headers, media_type="application/json")
