"""Clients that ask one after the other: how long each answer took, and how many were accepted.

Run by benchmarks.strict in a process of its own: HOST PORT CONNECTIONS SECONDS; paths come on
stdin, one a line, and are asked in turn. Prints one JSON document.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

WARM_UP_SHARE = 0.2
"""Of the time: what is answered in it is not measured."""


async def run(
    host: str, port: int, paths: list[str], connections: int, seconds: float
) -> dict[str, object]:
    """As many as there are connections ask at a time."""
    began_s = time.perf_counter()
    settled_s, end_s = began_s + seconds * WARM_UP_SHARE, began_s + seconds
    took_s: list[float] = []
    accepted = answered = 0
    wrong: list[str] = []

    async def ask(number: int) -> None:
        nonlocal accepted, answered
        reader, writer = await asyncio.open_connection(host, port)
        while (at_s := time.perf_counter()) < end_s and not wrong:
            path = paths[number % len(paths)]
            number += connections
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode().lower().split("\r\n")
            length = next(int(one.split(":")[1]) for one in lines if "content-length" in one)
            body = await reader.readexactly(length)
            if b" 200 " not in head.split(b"\r\n", 1)[0]:
                wrong.append(body[:200].decode())
                return
            answered += 1
            accepted += json.loads(body)["accepted"]
            now_s = time.perf_counter()
            if at_s >= settled_s:
                took_s.append(now_s - at_s)
        writer.close()

    await asyncio.gather(*(ask(number) for number in range(connections)))
    took_s.sort()
    return {
        "answered": answered,
        "accepted": accepted,
        "per_s": len(took_s) / (seconds * (1 - WARM_UP_SHARE)),
        "p50_ms": 1000 * took_s[len(took_s) // 2] if took_s else 0.0,
        "p99_ms": 1000 * took_s[int(len(took_s) * 0.99)] if took_s else 0.0,
        "wrong": wrong[:3],
    }


def main() -> None:
    host, port, connections, seconds = sys.argv[1:]
    paths = sys.stdin.read().split()
    found = run(host, int(port), paths, int(connections), float(seconds))
    print(json.dumps(uvloop.run(found)))


if __name__ == "__main__":
    main()
