"""Requests to the web API: the real app, with nobody behind it, so that questions fail politely.

Each is asked twice, of an app that asks for no token and of one that does. An input is lines: the
method, the path and query as sent, headers up to an empty line, the body.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
from functools import cache
from typing import Any
from urllib.parse import unquote

from pipeline.access.access import Access
from pipeline.access.grant import Grant, Rights
from pipeline.access.tokens import Known, digest_of
from pipeline.clock import Clock
from pipeline.errors import TryAgainError
from pipeline.web.app import build_app
from pipeline.web.services import Services
from schemas.settings import Settings
from tests.fuzz.offline import Offline
from tests.kit.clocks import ManualClock

PROMISE = "never a server error but 503 with what to do; refusals are documents with a reason"

_WAIT_S = 5.0
_ASKS_SERVERS = ("/metrics", "/api/v1/shards")
"""They take no bodies and hardly a parameter, and wait for servers that are not there."""
_PIECE_BYTES = 1000
_TOKEN = "tally_" + "a" * 43


def seeds() -> list[bytes]:
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    asked = (
        "/", "/health", "/openapi.json", "/api/v1/status", "/api/v1/families",
        "/api/v1/counters?counter=likes%3Ax&counter=b:c&mode=exact", "/api/v1/keys/x?families=a,b",
        "/api/v1/counters/likes:x", "/api/v1/counters/likes:x/exact?wait=0.01&receipt=0:5",
        "/api/v1/counters/a%2Fb:%C3%A9/windows?by=1m&since=2026-01-01T00:00:00Z&until=x&last=60m",
        "/api/v1/counters/a:b/uniques?by=1h&last=2h&region=eu", "/api/v1/counters/a:b/explain",
        "/api/v1/counters/a:b/regions", "/api/v1/counters/a:b/history?limit=5",
        "/api/v1/families/a/top?k=5&region=*&window=1h", "/api/v1/families/%00/trending?k=999999",
        "/api/v1/dead-letters?limit=-1", "/api/v1/builds", "/page/x/..%2fy",
    )  # fmt: skip
    found = [f"GET\n{path}\nAccept: text/csv\n\n".encode() for path in asked]
    event = b'{"delta":5,"member":"ada","id":"1","at":"2026-11-16T04:06:36Z"}'
    json_type = b"\ncontent-type: application/json\n\n"
    return [
        *found,
        b"POST\n/api/v1/counters/a:b/increment" + json_type + event,
        b"POST\n/api/v1/counters/a:b/decrement" + json_type + b'{"amount":1,"floor":0,"id":"x"}',
        b"POST\n/api/v1/counters/a:b/acquire" + json_type + b'{"limit":5,"window_ms":1000}',
        b"POST\n/api/v1/counters/a:b/shards" + json_type + b'{"shards":4,"for_s":60}',
        b"POST\n/api/v1/increments\n\n" + b'{"counter":"a:b"}\nnope\n{"counter":"a:c","delta":0}',
        b"POST\n/session" + json_type + b'{"token":"tally_x"}',
        b"POST\n/session" + json_type + b'{"token":"%s"}' % _TOKEN.encode(),
        b"GET\n/api/v1/counters/likes:x\nauthorization: Bearer %s\n\n" % _TOKEN.encode(),
        b"GET\n/api/v1/counters/views:x\ncookie: tally_token=%s; a=b\n\n" % _TOKEN.encode(),
        b"POST\n/api/v1/counters/a:b/increment" + json_type + b"[" * 3000,
        b"POST\n/api/v1/increments\ncontent-encoding: gzip\n\n\x1f\x8b\x08\0",
        b"DELETE\n/session\ncookie: tally=x\nauthorization: Bearer \xff\n\n",
    ]


@cache
def _apps() -> tuple[tuple[Any, Any], asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    clock = ManualClock(1_790_000_000.0)
    known = Known(Grant("dashboard", Rights(read=frozenset({"likes"}))), digest_of(_TOKEN), None)
    return (_app(clock, None), _app(clock, Access(clock, also=[known]))), loop


def _app(clock: Clock, access: Access | None) -> Any:
    services = Services(Settings(config=None), clock)
    services.access = access
    Offline(TryAgainError("nobody is behind this")).stand_in(services)
    return build_app(services)


def check(data: bytes) -> None:
    apps, loop = _apps()
    for app in apps:
        scope, body = _scope(data)
        if scope["path"].rstrip("/") not in _ASKS_SERVERS:
            _is_as_promised(*loop.run_until_complete(_asked(app, scope, body)))


def _is_as_promised(status: int, headers: dict[bytes, bytes], answer: bytes) -> None:
    assert status < 500 or status == 503, (status, answer[:300])
    if 400 <= status < 500 and headers.get(b"content-type", b"").startswith(b"application/"):
        document = json.loads(answer)
        assert document["error"], "a refusal says why"


def _scope(data: bytes) -> tuple[dict[str, Any], bytes]:
    method, _, rest = data.partition(b"\n")
    target, _, rest = rest.partition(b"\n")
    head, _, body = rest.partition(b"\n\n") if not rest.startswith(b"\n") else (b"", b"", rest[1:])
    path, _, query = target.partition(b"?")
    pairs = [line.partition(b":") for line in head.split(b"\n")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1"),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            *((name.strip().lower(), value.strip()) for name, _, value in pairs),
        ],
        "client": ("127.0.0.1", 5),
        "server": ("localhost", 80),
        "state": {},
    }
    return scope, body


async def _asked(
    app: Any, scope: dict[str, Any], body: bytes
) -> tuple[int, dict[bytes, bytes], bytes]:
    pieces = [body[at : at + _PIECE_BYTES] for at in range(0, len(body), _PIECE_BYTES)] or [b""]
    status, headers, answer = 0, {}, bytearray()
    done = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not pieces:
            await done.wait()
            return {"type": "http.disconnect"}
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], dict(message["headers"])
            if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                done.set()
        elif message["type"] == "http.response.body":
            answer.extend(message.get("body", b""))
            if not message.get("more_body"):
                done.set()

    async with asyncio.timeout(_WAIT_S):
        await app(scope, receive, send)
    return status, headers, bytes(answer)
