"""The numbers that the web API answers, beside those that must be there.

Totals, and what strict counters answered, are asked of every process. Every other question, by
counter or family, region, window and how many, is asked of one of them, in turn; where there are
many, a sample of each kind and grain, another one in each run.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from typing import Any, NamedTuple, TypeVar

from tests.kit.truth import strict
from tests.kit.truth.asking import Web, Webs, at_once
from tests.kit.truth.differences import (
    Difference,
    compared,
    compared_rankings,
    compared_sizes,
)
from tests.kit.truth.expected import ALL, EVER, GRAINS_S, Expected, Place
from tests.kit.truth.ledger import Decisions
from tests.kit.truth.sketched import Sketched, compared_estimates, compared_heaviest, estimates

T = TypeVar("T")

TOP_K = 10
"""More than exact families have counters: all are listed."""

CUT_K = 3
"""Asked for besides where there are more: the others must be left out."""

WINDOWS_OF = 4
"""Of about so many sketched counters windows are asked for."""

ASKED_AGAIN = 30
"""So many of the newest strict commands are asked once more."""


def differences(
    webs: Webs, expected: Expected, sketched: Sketched, decisions: Decisions
) -> Iterator[Difference]:
    """All that is not what it must be in the answers of these processes."""
    try:
        for web in webs.each:
            yield from _of_totals(web, expected)
            yield from _of_strict(web, decisions)
        yield from _of_keys(webs, expected, sketched, decisions)
        yield from _of_regions(webs, expected)
        yield from _of_windows(webs, expected)
        yield from _of_members(webs, expected)
        yield from _of_rankings(webs, expected)
        yield from _of_estimates(webs, sketched)
        yield from _of_estimated_rankings(webs, sketched)
        for web in webs.each:
            yield from web.wrong
    finally:
        webs.close()


def _of_totals(web: Web, expected: Expected) -> Iterator[Difference]:
    counters, wanted = expected.counters(), expected.totals_by_region()
    for mode in ("cached", "exact"):
        found = _merged(web.totals(counters, mode, region) for region in (ALL, *expected.regions()))
        yield from compared(f"web totals, {mode}", wanted, found)
    found = _merged(at_once([web], Web.live, [(counter,) for counter in counters]))
    everywhere = {key: total for key, total in wanted.items() if key[1] == ALL}
    yield from compared("web totals, live", everywhere, found)


def _of_keys(
    webs: Webs, expected: Expected, sketched: Sketched, decisions: Decisions
) -> Iterator[Difference]:
    """What each family that has something of a key has of it."""
    totals = {
        place[0]: net for place, net in expected.totals_by_region().items() if place[1] == ALL
    }
    totals |= {counter: net for (counter,), net in strict.totals(decisions).items()}
    keys = {_key_of(counter) for counter in [*totals, *sketched.counters()]}
    asked = webs.some_of([(key,) for key in sorted(keys)])
    for (family, region, _), counts in sketched.truths(None).items():
        if region == ALL:
            told = estimates(family, counts, [f"{family}:{key}" for (key,) in asked])
            totals |= {counter: one.value for counter, one in told.items()}
    wanted = {
        (counter, ALL, EVER): net
        for counter, net in totals.items()
        if net and (_key_of(counter),) in asked
    }
    # One by one: each is a question about all families, whose cached totals take no time to come.
    found = _merged(web.key(key) for web, (key,) in zip(cycle(webs.each), asked, strict=False))
    yield from compared("web keys", wanted, found)


def _key_of(counter: str) -> str:
    """What counters of several families have in common."""
    return counter.partition(":")[2]


def _of_regions(webs: Webs, expected: Expected) -> Iterator[Difference]:
    asked = webs.some_of([(counter,) for counter in expected.counters()])
    places = {(counter, region) for (counter,) in asked for region in expected.regions()}
    totals = expected.totals_by_region()
    wanted = {key: total for key, total in totals.items() if key[:2] in places}
    # A region in which nothing was ever counted is not among them.
    found = dict.fromkeys((key for key, total in wanted.items() if not total), 0)
    found |= _merged(webs.answers(Web.regions, asked))
    yield from compared("web regions", wanted, found)


def _of_windows(webs: Webs, expected: Expected) -> Iterator[Difference]:
    for grain in GRAINS_S:
        asked = webs.some_of(_everywhere(expected, grain))
        wanted = _at(asked, {**expected.counts(grain), **expected.totals_by_region()})
        found = _merged(webs.answers(Web.windows, asked))
        yield from compared(f"web windows of {grain}", wanted, found)


def _of_members(webs: Webs, expected: Expected) -> Iterator[Difference]:
    for grain in GRAINS_S:
        asked = webs.some_of(_everywhere(expected, grain))
        wanted = _at(asked, {**expected.members(grain), **expected.members_ever()})
        found = _merged(webs.answers(Web.uniques, asked))
        yield from compared_sizes(f"web uniques of {grain}", wanted, found)


def _everywhere(expected: Expected, grain: str) -> list[tuple[str, str, str]]:
    return [
        (counter, grain, region)
        for counter in expected.counters()
        for region in (ALL, *expected.regions())
    ]


def _at(asked: Iterable[tuple[str, str, str]], known: Mapping[Place, T]) -> dict[Place, T]:
    """What is known of the counters and regions that are asked for."""
    places = {(counter, region) for counter, _, region in asked}
    return {key: one for key, one in known.items() if key[:2] in places}


def _of_rankings(webs: Webs, expected: Expected) -> Iterator[Difference]:
    for grain in GRAINS_S:
        rankings = expected.rankings(grain)
        sizes = {key: len(ranking) for key, ranking in rankings.items()}
        asked = webs.some_of(questions_of(grain, sizes))
        wanted = {(*one.key, one.k): rankings[one.key][: one.k] for one in asked}
        answers = zip(wanted, webs.answers(Web.top, asked), strict=True)
        found = {key: top for key, top in answers if top is not None}
        yield from compared_rankings(f"web top of {grain}", wanted, found)


class TopQuestion(NamedTuple):
    """Who leads in a window, family and region, and how many of them."""

    grain: str
    key: Place
    k: int


def questions_of(grain: str, sizes: Mapping[Place, int]) -> list[TopQuestion]:
    """What to ask of rankings that have so many counters. Pure."""
    asked = [TopQuestion(grain, place, TOP_K) for place in sizes]
    return asked + [TopQuestion(grain, place, CUT_K) for place in sizes if sizes[place] > CUT_K]


def _of_estimates(webs: Webs, sketched: Sketched) -> Iterator[Difference]:
    for key, counts in sketched.truths(None).items():
        family, region, _ = key
        asked = sorted(sketched.counters_of(family))
        for web in webs.each:
            found = web.estimates(asked, region)
            yield from compared_estimates("web estimates", family, counts, asked, found)
    for grain in GRAINS_S:
        for family in sketched.families():
            yield from _of_estimated_windows(webs, sketched, family, grain)


def _of_estimated_windows(
    webs: Webs, sketched: Sketched, family: str, grain: str
) -> Iterator[Difference]:
    counters = sorted(sketched.counters_of(family))
    counters = counters[:: max(1, len(counters) // WINDOWS_OF)]
    truths = {key: counts for key, counts in sketched.truths(grain).items() if key[0] == family}
    regions = sorted({region for _, region, _ in truths})
    asked = webs.some_of([(counter, grain, region) for counter in counters for region in regions])
    answers = dict(zip(asked, webs.answers(Web.estimated_windows, asked), strict=True))
    where = f"web estimates of {grain}"
    for (_, region, start_s), counts in truths.items():
        there = [counter for counter, _, place in asked if place == region]
        found = {
            counter: answers[counter, grain, region][start_s]
            for counter in there
            if start_s in answers[counter, grain, region]
        }
        yield from compared_estimates(where, family, counts, there, found)
    for (counter, _, region), windows in answers.items():
        for start_s in windows.keys() - {start for _, place, start in truths if place == region}:
            yield Difference("doubled", where, (counter, region, start_s), None, windows[start_s])


def _of_estimated_rankings(webs: Webs, sketched: Sketched) -> Iterator[Difference]:
    for grain in GRAINS_S:
        truths = sketched.truths(grain)
        sizes = {key: len(counts) for key, counts in truths.items()}
        asked = webs.some_of(questions_of(grain, sizes))
        for one, top in zip(asked, webs.answers(Web.top, asked), strict=True):
            if top is not None:
                counts = {**dict.fromkeys(sketched.counters_of(one.key[0]), 0), **truths[one.key]}
                yield from compared_heaviest(f"web top of {grain}", one.key, counts, top, one.k)


def _of_strict(web: Web, decisions: Decisions) -> Iterator[Difference]:
    wanted = strict.totals(decisions)
    counters = [counter for (counter,) in wanted]
    if not counters:
        return
    for mode in ("cached", "exact"):
        found = {key[:1]: value for key, value in web.totals(counters, mode).items()}
        yield from compared(f"web strict totals, {mode}", wanted, found)
    # Whoever asks again hears the same, as long as ids are remembered.
    known = [one for one in zip(decisions.commands, decisions.answers, strict=True) if one[1]]
    again = known[-ASKED_AGAIN:]
    told = at_once([web], Web.decision, [(command,) for command, _ in again])
    for (command, answers), answer in zip(again, told, strict=True):
        # What was not answered at all is told as such.
        if answer is not None and answer != answers[0]:
            key = (command["counter"], command["id"])
            yield Difference("decision", "web, asked again", key, answers[0], answer)


def _merged(parts: Iterable[dict[Any, T]]) -> dict[Any, T]:
    return {key: value for part in parts for key, value in part.items()}
