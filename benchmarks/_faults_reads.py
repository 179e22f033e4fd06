"""Reads of one total at a steady rate, by a client that knows several web processes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

import httpx

from benchmarks._faults_cost import Answer, Read

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERY_S = 0.1
ADDRESS_TIMEOUT_S = 2.0
"""So long a client waits for one process before it asks the next."""


class Reads:
    """Begins one every so often, however long others take, until it is left: all are in `done`."""

    def __init__(self, urls: Sequence[str], path: str) -> None:
        """Asks nobody yet."""
        self.done: list[Read] = []
        self._reasons: Counter[str] = Counter()
        self._urls = list(urls)
        self._path = path
        self._over = threading.Event()
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="reads", daemon=True)

    @property
    def longest_s(self) -> float:
        """No read takes longer."""
        return len(self._urls) * ADDRESS_TIMEOUT_S

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2 * self.longest_s)

    def reasons(self) -> dict[str, int]:
        """Why answers were none or not complete, since this was asked last: how often each."""
        told, self._reasons = self._reasons, Counter()
        return dict(told)

    def check(self) -> None:
        """Raises what ended it: an answer that is none of the web API, for instance."""
        if self._errors:
            raise self._errors[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._ask())
        except Exception as error:  # A thread has nobody to raise it to.
            self._errors.append(error)

    async def _ask(self) -> None:
        async with httpx.AsyncClient(timeout=None) as client, asyncio.TaskGroup() as reading:
            number = 0
            next_s = time.monotonic()
            while not self._over.is_set():
                first = number % len(self._urls)
                urls = [*self._urls[first:], *self._urls[:first]]
                reading.create_task(self._read(client, urls))
                number += 1
                next_s = max(next_s + EVERY_S, time.monotonic())
                await asyncio.sleep(next_s - time.monotonic())

    async def _read(self, client: httpx.AsyncClient, urls: Sequence[str]) -> None:
        began_s = time.monotonic()
        answer = Answer.NONE
        for url in urls:
            try:
                async with asyncio.timeout(ADDRESS_TIMEOUT_S):
                    answered = await client.get(f"{url}{self._path}")
                answered.raise_for_status()
            except (httpx.HTTPError, TimeoutError) as error:
                self._reasons[type(error).__name__] += 1
                continue
            document = answered.json()
            answer = Answer.WHOLE if document["complete"] else Answer.INCOMPLETE
            if answer is Answer.INCOMPLETE:
                self._reasons["; ".join(document.get("remarks", ["no remark"]))] += 1
            break
        self.done.append(Read(began_s, time.monotonic(), answer))
