"""Requests at a steady rate on kept connections, and how long each took. Runs as a process.

Run by benchmarks.reads: python -m benchmarks._paced HOST PORT RATE SECONDS CONNECTIONS
The requests, one JSON text a line, come on standard input and are sent in turn; the answers must
begin as the second one of each line says. Prints one JSON line.

The clock of a request runs from when it was due, not from when it was sent, so that one that waits
for a slow one before it counts as slow as well. What this process itself takes is in every figure:
so its loop is compiled, and nothing is collected meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections import deque
from typing import NamedTuple

import uvloop

LAST_S = 30
"""How long the last answers are waited for."""

WARM_UP_SHARE = 0.2
"""What is sent in the beginning is not counted."""


class Request(NamedTuple):
    """Bytes to send, and how their answer begins."""

    sent: bytes
    answer: bytes


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """One answer, of HTTP with a Content-Length, or of Redis."""
    first = await reader.readline()
    if first.startswith(b"$"):
        return first + await reader.readexactly(int(first[1:]) + 2)
    length = 0
    while (line := await reader.readline()) not in {b"\r\n", b""}:
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return first + await reader.readexactly(length)


async def run(
    host: str,
    port: int,
    requests: list[Request],
    *,
    rate: float,
    seconds: float,
    connections: int,
) -> dict[str, object]:
    """The times of all requests after the warm-up, and what was answered wrongly."""
    total = int(rate * seconds)
    all_answered = asyncio.Event()
    due: deque[tuple[float, Request]] = deque()
    ready = asyncio.Semaphore(0)
    took_s: list[tuple[float, float]] = []
    wrong: list[str] = []
    streams = [await asyncio.open_connection(host, port) for _ in range(connections)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await ready.acquire()
            at_s, request = due.popleft()
            writer.write(request.sent)
            answer = await read_answer(reader)
            took_s.append((at_s, time.perf_counter() - at_s))
            if len(took_s) == total:
                all_answered.set()
            if not answer.startswith(request.answer):
                wrong.append(answer[:200].decode(errors="replace"))

    tasks = [asyncio.create_task(serve(*stream)) for stream in streams]
    began_s = time.perf_counter()
    for number in range(total):
        at_s = began_s + number / rate
        if (left_s := at_s - time.perf_counter()) > 0:
            await asyncio.sleep(left_s)
        due.append((at_s, requests[number % len(requests)]))
        ready.release()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_S):
            await all_answered.wait()
    for task in tasks:
        task.cancel()
    settled_s = began_s + seconds * WARM_UP_SHARE
    counted = sorted(took for at_s, took in took_s if at_s >= settled_s)
    last_s = max((at_s + took for at_s, took in took_s), default=began_s)
    return {
        "sent": total,
        "answered": len(took_s),
        "per_s": len(took_s) / (last_s - began_s),
        "p50_ms": 1000 * counted[len(counted) // 2],
        "p99_ms": 1000 * counted[int(len(counted) * 0.99)],
        "greatest_ms": 1000 * counted[-1],
        "wrong": wrong[:3],
    }


def main() -> None:
    host, port, rate, seconds, connections = sys.argv[1:]
    lines = [json.loads(line) for line in sys.stdin]
    requests = [Request(sent.encode(), answer.encode()) for sent, answer in lines]
    found = run(
        host,
        int(port),
        requests,
        rate=float(rate),
        seconds=float(seconds),
        connections=int(connections),
    )
    gc.disable()
    print(json.dumps(uvloop.run(found)))


if __name__ == "__main__":
    main()
