"""The numbers that the web API answers, beside those that must be there."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from tests.kit.truth import strict
from tests.kit.truth.differences import (
    Difference,
    compared,
    compared_rankings,
    compared_sizes,
)
from tests.kit.truth.expected import ALL, GRAINS_S, Expected
from tests.kit.truth.in_clickhouse import UNIQUES_ERROR
from tests.kit.truth.ledger import Answer, Command, Decisions
from tests.kit.truth.sketched import (
    Estimate,
    Sketched,
    compared_estimates,
    compared_heaviest,
    windows_of,
)

T = TypeVar("T")

TIMEOUT_S = 180.0
"""On a busy machine an answer may take long; that is no difference."""

TOP_K = 10
COUNTERS_AT_ONCE = 500
NEWEST = 2
"""Of so many hours, and of so many days, rankings are asked for: each region is a request."""

LIVE = 6
"""So many counters are read live: each such read has all workers flush."""

WINDOWS_OF = 4
"""Of about so many sketched counters windows are asked for."""

ASKED_AGAIN = 30
"""So many of the newest strict commands are asked once more."""

DECISION_TRIES = 10
"""A decision that is not known in time is answered with 504, and asked for again."""

AGAIN_S = 60.0
"""So long what is incomplete, or not to be had now, is asked for again. On a busy machine shards
are not flushed in time for a live answer, and who asks for cached totals waits a tenth of a second
at most for values of today, and gets those of the last verdict where ClickHouse takes longer."""

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
            what = f"{answer.status_code} {answer.text[:300]}"
            wrong = Difference("answer", f"web {path}", tuple(asked.items()), 200, what)
            self.wrong.append(wrong)
        for one in incomplete:
            key = (one.get("counter"), *asked.items())
            self.wrong.append(Difference("answer", f"web {path}", key, "complete", one))
        return document

    def totals(self, counters: list[str], mode: str) -> dict[Any, int]:
        """Many at once."""
        found: dict[Any, int] = {}
        for start in range(0, len(counters), COUNTERS_AT_ONCE):
            some = counters[start : start + COUNTERS_AT_ONCE]
            document = self.ask("/counters", counter=some, mode=mode)
            found |= {(one["counter"],): one["net"] for one in document.get("counters", ())}
        return found

    def total(self, counter: str, mode: str) -> dict[Any, int]:
        document = self.ask(f"/counters/{quote(counter, safe='')}/{mode}")
        return {(counter,): document["net"]} if document else {}

    def windows(self, counter: str, grain: str, region: str) -> dict[Any, int]:
        """One counter's windows, by the places of Expected.counts."""
        path = f"/counters/{quote(counter, safe='')}/windows"
        document = self.ask(path, by=grain, region=region)
        return {
            (counter, region, _seconds(one["window"])): one["count"]
            for one in document.get("windows", ())
        }

    def uniques(self, counter: str, grain: str) -> dict[Any, tuple[int, int, int]]:
        """One counter's windows, and under the window -1 all of them united."""
        path = f"/counters/{quote(counter, safe='')}/uniques"
        document = self.ask(path, by=grain)
        found = {-1: document} if document else {}
        found |= {_seconds(one["window"]): one for one in document.get("windows", ())}
        return {
            (counter, ALL, start_s): (one["uniques"], one["low"], one["high"])
            for start_s, one in found.items()
            if one["uniques"]
        }

    def top(self, grain: str, key: tuple[str, str, int]) -> list[tuple[str, int]]:
        family, region, start_s = key
        path = f"/families/{quote(family, safe='')}/top"
        at = datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = self.ask(path, region=region, window=grain, at=at, k=TOP_K)
        return [(one["counter"], one["count"]) for one in document.get("top", ())]

    def estimates(self, counters: list[str]) -> dict[str, Estimate]:
        """Of many sketched counters at once."""
        found: dict[str, Estimate] = {}
        for start in range(0, len(counters), COUNTERS_AT_ONCE):
            some = counters[start : start + COUNTERS_AT_ONCE]
            document = self.ask("/counters", counter=some, mode="exact")
            found |= {one["counter"]: _estimate(one, "net") for one in document.get("counters", ())}
        return found

    def estimated_windows(self, counter: str, grain: str) -> dict[int, Estimate]:
        """One sketched counter's windows, by their starts."""
        path = f"/counters/{quote(counter, safe='')}/windows"
        document = self.ask(path, by=grain)
        return {
            _seconds(one["window"]): _estimate(one, "count") for one in document.get("windows", ())
        }

    def decision(self, command: Command) -> Answer | None:
        """What a strict counter says to a command that it has decided before."""
        path = f"/api/v1/counters/{quote(command['counter'], safe='')}/{command['what']}"
        amount = "delta" if command["what"] == "increment" else "amount"
        body = {amount: command["amount"], "id": command["id"]}
        for _ in range(DECISION_TRIES):
            answer = self._client.post(path, json=body)
            if answer.status_code == httpx.codes.OK:
                document = answer.json()
                return Answer(document["accepted"], document["remaining"])
        return None

    def close(self) -> None:
        self._client.close()


def differences(
    url: str,
    expected: Expected,
    sketched: Sketched,
    decisions: Decisions,
    *,
    totals_only: bool,
) -> Iterator[Difference]:
    """All that is not what it must be in the API's answers."""
    web = Web(url)
    try:
        for mode in ("cached", "exact"):
            found = web.totals(expected.counters(), mode)
            yield from compared(f"web totals, {mode}", expected.totals(), found)
        yield from _of_strict(web, decisions)
        if not totals_only:
            yield from _of_all_else(web, expected)
            yield from _of_sketched(web, sketched)
        yield from web.wrong
    finally:
        web.close()


def _of_all_else(web: Web, expected: Expected) -> Iterator[Difference]:
    yield from _of_windows(web, expected)
    yield from _of_members(web, expected)
    for grain in ("1h", "1d"):
        rankings = expected.rankings(grain)
        newest = sorted({start_s for _, _, start_s in rankings})[-NEWEST:]
        wanted = {key: rank[:TOP_K] for key, rank in rankings.items() if key[2] in newest}
        answers = _at_once(partial(web.top, grain), wanted)
        found = dict(zip(wanted, answers, strict=True))
        yield from compared_rankings(f"web top of {grain}", wanted, found)


def _of_windows(web: Web, expected: Expected) -> Iterator[Difference]:
    counters, totals = expected.counters(), expected.totals()
    some = counters[-LIVE:]
    found = _merged(_at_once(lambda counter: web.total(counter, "live"), some))
    of_some = {key: total for key, total in totals.items() if key[0] in some}
    yield from compared("web totals, live", of_some, found)
    regions = expected.regions()
    for number, grain in enumerate(GRAINS_S):
        # In each grain every counter in all regions and in one of them, another one each time.
        asked = [(counter, grain, ALL) for counter in counters]
        asked += [
            (counter, grain, regions[(place + number) % len(regions)])
            for place, counter in enumerate(counters)
        ]
        places = {(counter, region) for counter, _, region in asked}
        counts = expected.counts(grain)
        wanted = {key: count for key, count in counts.items() if key[:2] in places}
        found = _merged(_at_once(lambda one: web.windows(*one), asked))
        yield from compared(f"web windows of {grain}", wanted, found)


def _of_members(web: Web, expected: Expected) -> Iterator[Difference]:
    hours = expected.members("1h")
    wanted: dict[Any, set[str]] = {key: who for key, who in hours.items() if key[1] == ALL}
    wanted |= {(counter, ALL, -1): who for counter, who in expected.members_ever().items()}
    found = _merged(_at_once(lambda counter: web.uniques(counter, "1h"), expected.counters()))
    yield from compared_sizes("web uniques of 1h", wanted, found, UNIQUES_ERROR)


def _of_sketched(web: Web, sketched: Sketched) -> Iterator[Difference]:
    for (family, _, _), counts in sketched.truths(None).items():
        asked = sorted(counts)
        found = web.estimates(asked)
        yield from compared_estimates("web estimates", family, counts, asked, found)
    hours = {key: counts for key, counts in sketched.truths("1h").items() if key[1] == ALL}
    for family in sketched.families():
        some = sorted(
            counter for counter in sketched.counters() if counter.startswith(f"{family}:")
        )
        asked = some[:: max(1, len(some) // WINDOWS_OF)]
        answers = _at_once(partial(web.estimated_windows, grain="1h"), asked)
        for (of, _, start_s), counts in hours.items():
            if of != family:
                continue
            found = {
                counter: answer[start_s]
                for counter, answer in zip(asked, answers, strict=True)
                if start_s in answer
            }
            yield from compared_estimates("web estimates of 1h", family, counts, asked, found)
    for grain in ("1h", "1d"):
        places = windows_of(sketched, grain, NEWEST)
        tops = _at_once(partial(web.top, grain), places)
        for (key, counts), top in zip(places.items(), tops, strict=True):
            yield from compared_heaviest(f"web top of {grain}", key, counts, top, TOP_K)


def _of_strict(web: Web, decisions: Decisions) -> Iterator[Difference]:
    wanted = strict.totals(decisions)
    counters = [counter for (counter,) in wanted]
    if not counters:
        return
    for mode in ("cached", "exact"):
        found = web.totals(counters, mode)
        yield from compared(f"web strict totals, {mode}", wanted, found)
    # Whoever asks again hears the same, as long as ids are remembered.
    known = [one for one in zip(decisions.commands, decisions.answers, strict=True) if one[1]]
    again = known[-ASKED_AGAIN:]
    told = _at_once(web.decision, [command for command, _ in again])
    for (command, answers), answer in zip(again, told, strict=True):
        if answer != answers[0]:
            key = (command["counter"], command["id"])
            yield Difference("decision", "web, asked again", key, answers[0], answer)


def _at_once(ask: Callable[[Any], T], questions: Iterable[Any]) -> list[T]:
    """The answers, in the order of the questions."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(ask, questions))


def _merged(parts: Iterable[dict[Any, T]]) -> dict[Any, T]:
    return {key: value for part in parts for key, value in part.items()}


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
