"""The dashboard: one page at `/` and its files, with nothing fetched from anywhere else."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pipeline.web.page_files import page_files
from pipeline.web.problems import problem

router = APIRouter(include_in_schema=False)

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    ]
)
"""What the page may do: run and show its own files, and ask its own server. Nothing inline."""

_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/")
async def page(request: Request) -> Response:
    """The page itself, asked for anew each time, so that it always names the newest files."""
    index = page_files().index
    tag = f'"{hashlib.blake2b(index, digest_size=12).hexdigest()}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Content-Security-Policy": POLICY}
    if request.headers.get("if-none-match", "").removeprefix("W/") == tag:
        return Response(status_code=304, headers=headers)
    return Response(index, 200, headers, "text/html; charset=utf-8")


@router.get("/page/{version}/{name}")
async def file(version: str, name: str) -> Response:
    """A file of the page. One of another version is not there: the page is to be loaded anew."""
    files = page_files()
    found = files.files.get(name) if version == files.version else None
    if found is None:
        return problem(404, "there is no such file: load the page anew")
    headers = {"Cache-Control": _FOR_EVER, "Content-Security-Policy": POLICY}
    return Response(found.body, 200, headers, found.media_type)
