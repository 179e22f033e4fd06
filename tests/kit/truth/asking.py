"""Questions to the web API, and what it answers, as numbers by their places."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from tests.kit.truth.differences import Difference
from tests.kit.truth.expected import ALL, EVER, Place
from tests.kit.truth.ledger import Answer, Command
from tests.kit.truth.sketched import Estimate

T = TypeVar("T")

TIMEOUT_S = 180.0
"""On a busy machine an answer may take long; that is no difference."""

COUNTERS_AT_ONCE = 500

AGAIN_S = 180.0
"""So long what is incomplete, or not to be had now, is asked for again. On a busy machine shards
are not flushed in time for a live answer, and who asks for cached totals waits a tenth of a second
at most for values of today, and gets those of the last verdict where ClickHouse takes longer. A
decision that is not known in time is answered with 504."""

LATER = {httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT}

AGAIN_EVERY_S = 0.2

AT_ONCE = 4
"""So many requests at a time."""


class Web:
    """Asks one process. Whatever it does not answer, or not completely, is a difference."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT_S)
        self.wrong: list[Difference] = []

    def ask(self, path: str, **parameters: object) -> dict[str, Any]:
        """The document; empty where there is none."""
        asked = {name: value for name, value in parameters.items() if value is not None}
        until_s = time.monotonic() + AGAIN_S
        while True:
            answer = self._client.get(f"/api/v1{path}", params=asked)  # type: ignore[arg-type]
            is_ok = answer.status_code == httpx.codes.OK
            document: dict[str, Any] = answer.json() if is_ok else {}
            incomplete = _incomplete(document)
            is_later_better = incomplete or answer.status_code in LATER
            if not is_later_better or time.monotonic() >= until_s:
                break
            time.sleep(AGAIN_EVERY_S)
        if not is_ok:
            self._tell_wrong(path, tuple(asked.items()), answer)
        for one in incomplete:
            key = (one.get("counter"), *asked.items())
            self.wrong.append(Difference("answer", f"web {path}", key, "complete", one))
        return document

    def totals(self, counters: list[str], mode: str, region: str = ALL) -> dict[Any, int]:
        """Many at once, by the places of Expected.totals_by_region."""
        found: dict[Any, int] = {}
        for one in self._counters(counters, mode, region):
            found[one["counter"], region, EVER] = one["net"]
        return found

    def live(self, counter: str) -> dict[Any, int]:
        document = self.ask(f"/counters/{quote(counter, safe='')}/live")
        return {(counter, ALL, EVER): document["net"]} if document else {}

    def key(self, key: str) -> dict[Any, int]:
        """What each family that has counted a key has of it."""
        document = self.ask(f"/keys/{quote(key, safe='')}")
        return {(one["counter"], ALL, EVER): one["net"] for one in document.get("counters", ())}

    def regions(self, counter: str) -> dict[Any, int]:
        """What each region that is known has of a counter."""
        document = self.ask(f"/counters/{quote(counter, safe='')}/regions")
        return {(counter, one["region"], EVER): one["net"] for one in document.get("regions", ())}

    def windows(self, counter: str, grain: str, region: str) -> dict[Any, int]:
        """One counter's windows, by the places of Expected.counts, and what they come to."""
        path = f"/counters/{quote(counter, safe='')}/windows"
        document = self.ask(path, by=grain, region=region)
        found = {(counter, region, EVER): document["net"]} if document else {}
        return found | {
            (counter, region, _seconds(one["window"])): one["count"]
            for one in document.get("windows", ())
        }

    def uniques(self, counter: str, grain: str, region: str) -> dict[Any, tuple[int, int, int]]:
        """One counter's windows, and all of them united."""
        path = f"/counters/{quote(counter, safe='')}/uniques"
        document = self.ask(path, by=grain, region=region)
        found = {EVER: document} if document else {}
        found |= {_seconds(one["window"]): one for one in document.get("windows", ())}
        return {
            (counter, region, start_s): (one["uniques"], one["low"], one["high"])
            for start_s, one in found.items()
            if one["uniques"]
        }

    def top(self, grain: str, key: Place, k: int) -> list[tuple[str, int]] | None:
        """The `k` greatest of a family, in a region and window; None where there is no answer."""
        family, region, start_s = key
        path = f"/families/{quote(family, safe='')}/top"
        at = datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = self.ask(path, region=region, window=grain, at=at, k=k)
        if not document:
            return None
        return [(one["counter"], one["count"]) for one in document["top"]]

    def estimates(self, counters: list[str], region: str) -> dict[str, Estimate]:
        """Of many sketched counters at once."""
        found = self._counters(counters, "exact", region)
        return {one["counter"]: _estimate(one, "net") for one in found}

    def estimated_windows(self, counter: str, grain: str, region: str) -> dict[int, Estimate]:
        """One sketched counter's windows, by their starts."""
        path = f"/counters/{quote(counter, safe='')}/windows"
        document = self.ask(path, by=grain, region=region)
        return {
            _seconds(one["window"]): _estimate(one, "count") for one in document.get("windows", ())
        }

    def decision(self, command: Command) -> Answer | None:
        """What a strict counter says to a command that it has decided before."""
        path = f"/counters/{quote(command['counter'], safe='')}/{command['what']}"
        amount = "delta" if command["what"] == "increment" else "amount"
        body = {amount: command["amount"], "id": command["id"]}
        until_s = time.monotonic() + AGAIN_S
        while True:
            answer = self._client.post(f"/api/v1{path}", json=body)
            if answer.status_code not in LATER or time.monotonic() >= until_s:
                break
            time.sleep(AGAIN_EVERY_S)
        if answer.status_code != httpx.codes.OK:
            self._tell_wrong(path, (command["id"],), answer)
            return None
        document = answer.json()
        return Answer(document["accepted"], document["remaining"])

    def close(self) -> None:
        self._client.close()

    def _tell_wrong(self, path: str, asked: tuple[object, ...], answer: httpx.Response) -> None:
        what = f"{answer.status_code} {answer.text[:300]}"
        self.wrong.append(Difference("answer", f"web {path}", asked, 200, what))

    def _counters(self, counters: list[str], mode: str, region: str) -> Iterator[dict[str, Any]]:
        for start in range(0, len(counters), COUNTERS_AT_ONCE):
            some = counters[start : start + COUNTERS_AT_ONCE]
            document = self.ask("/counters", counter=some, mode=mode, region=region)
            yield from document.get("counters", ())


class Webs:
    """Some processes that are asked in turn, at most so many questions of each kind and grain."""

    def __init__(self, urls: Sequence[str], most: int | None, seed: str) -> None:
        """`seed` chooses where there are more; without `most` all are asked."""
        self.each = [Web(url) for url in urls]
        self.known = self.asked = 0
        self._most = most
        self._chance = random.Random(seed)

    def some_of(self, questions: Sequence[T]) -> list[T]:
        """Those to be asked, in their order."""
        chosen = list(questions)
        if self._most is not None and len(chosen) > self._most:
            places = self._chance.sample(range(len(chosen)), self._most)
            chosen = [chosen[place] for place in sorted(places)]
        self.known += len(questions)
        self.asked += len(chosen)
        return chosen

    def answers(self, ask: Callable[..., T], questions: Iterable[tuple[Any, ...]]) -> list[T]:
        """In the order of the questions."""
        return at_once(self.each, ask, questions)

    def close(self) -> None:
        for web in self.each:
            web.close()


def at_once(
    webs: Sequence[Web], ask: Callable[..., T], questions: Iterable[tuple[Any, ...]]
) -> list[T]:
    """The answers, in the order of the questions; who is asked takes turns."""
    asked = [(webs[number % len(webs)], *one) for number, one in enumerate(questions)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda one: ask(*one), asked))


def _incomplete(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What an answer, or one of the counters in it, says of itself."""
    parts = (document, *document.get("counters", ()))
    return [one for one in parts if isinstance(one, dict) and one.get("complete") is False]


def _estimate(document: dict[str, Any], value: str) -> Estimate:
    """One that has no bounds is meant as exact."""
    count = document[value]
    return Estimate(count, document.get("low", count), document.get("high", count))


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())
