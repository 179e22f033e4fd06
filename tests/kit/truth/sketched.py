"""Every bucket and estimate that must come of a sketched family's increments. Pure.

Nothing is taken away from these families, so no estimate is ever below the truth.

What comes late is counted in coarser windows, of which their first minute tells
(docs/sketches/sketched-families.md): how late it is goes by the log's time, so minutes are those of
the log's own increments. Hours and days are those of the record, as for all families.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.kit.buckets import ROWS, buckets_of, width_for
from tests.kit.truth.differences import Difference
from tests.kit.truth.expected import ALL, Expected
from tests.kit.truth.kinds import SKETCHED, family_of
from tests.kit.truth.record import Document

Where = tuple[str, str, int]
"""Family, region (or all of them), and the window's start in seconds."""

MISSES = 0.01
"""The share of counters that may be below their lower bound: 99 % are promised for each."""


MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MINUTES_FOR_MS = 10 * MINUTE_MS
HOURS_FOR_MS = 2 * DAY_MS
"""What is so much older than the minute of log time in which it came has its minute, or its hour;
what is older still has its day."""


class LoggedRow(NamedTuple):
    """An increment as the log has it, and the log's time: the greatest of its partition so far."""

    document: Document
    log_ms: int


def placed(row: LoggedRow) -> Document:
    """The increment with the beginning of the window that it is counted in."""
    at_ms = row.document["at"]
    age_ms = row.log_ms // MINUTE_MS * MINUTE_MS - at_ms
    length_ms = HOUR_MS if age_ms <= HOURS_FOR_MS else DAY_MS
    if age_ms <= MINUTES_FOR_MS:
        length_ms = MINUTE_MS
    return {**row.document, "at": at_ms // length_ms * length_ms}


class Estimate(NamedTuple):
    """What a sketch answers of one counter."""

    value: int
    low: int
    high: int


class Sketched:
    """The same increments in plain sums, and in buckets by the definition of Count-Min."""

    def __init__(self, increments: Iterable[Document], logged: Iterable[LoggedRow] = ()) -> None:
        """Of all increments, those of sketched families, and as the log has them, in its order.

        An id that is there twice counts once, where it is first.
        """
        self._expected = Expected(one for one in increments if family_of(one) in SKETCHED)
        self._in_log = Expected(map(placed, logged))

    def counters(self) -> list[str]:
        return self._expected.counters()

    def counters_of(self, family: str) -> list[str]:
        """Those that were ever counted."""
        return [one for one in self.counters() if family_of({"counter": one}) == family]

    def families(self) -> list[str]:
        return self._expected.families()

    def truths(self, grain: str | None) -> dict[Where, dict[str, int]]:
        """What each counter has in each place; of all time without a grain."""
        found: dict[Where, dict[str, int]] = defaultdict(dict)
        if grain is not None:
            expected = self._in_log if grain == "1m" else self._expected
            for (counter, region, start_s), count in expected.counts(grain).items():
                found[family_of({"counter": counter}), region, start_s][counter] = count
        else:
            for (counter, region, ever), count in self._expected.totals_by_region().items():
                found[family_of({"counter": counter}), region, ever][counter] = count
        return dict(found)

    def buckets(self, grain: str) -> dict[tuple[str, str, int, int], int]:
        """What each bucket holds, by family, region, window and bucket."""
        sums: dict[tuple[str, str, int, int], int] = defaultdict(int)
        for (family, region, start_s), counts in self.truths(grain).items():
            if region != ALL:
                for bucket, count in _added(family, counts).items():
                    sums[family, region, start_s, bucket] = count
        return dict(sums)


def _width(family: str) -> int:
    return width_for(SKETCHED[family])


def _added(family: str, counts: Mapping[str, int]) -> dict[int, int]:
    sums: dict[int, int] = defaultdict(int)
    for counter, count in counts.items():
        for bucket in buckets_of(counter, _width(family)):
            sums[bucket] += count
    return sums


def slack(family: str, counts: Mapping[str, int]) -> int:
    """How far the bounds of an estimate are apart where these were counted."""
    return math.floor(math.e / _width(family) * sum(counts.values()))


def estimates(family: str, counts: Mapping[str, int], asked: Iterable[str]) -> dict[str, Estimate]:
    """What a sketch in which these were counted answers of any counters."""
    sums, apart = _added(family, counts), slack(family, counts)
    found = {}
    for counter in asked:
        buckets = buckets_of(counter, _width(family))
        assert len(set(buckets)) == ROWS
        high = min(sums.get(bucket, 0) for bucket in buckets)
        found[counter] = Estimate(high, max(high - apart, 0), high)
    return found


def compared_estimates(
    where: str,
    family: str,
    counts: Mapping[str, int],
    asked: Sequence[str],
    found: Mapping[str, Estimate],
) -> Iterator[Difference]:
    """Estimates of some counters beside the truth, and beside what the definition makes of it.

    Never below the truth; above it by more than the bounds only in the share that is promised; and
    to the unit what the definition has.
    """
    exact, missed = estimates(family, counts, asked), []
    for counter in asked:
        truth, answer = counts.get(counter, 0), found.get(counter)
        if answer is None:
            if exact[counter].value:
                yield Difference("lost", where, (counter,), exact[counter], None)
            continue
        if answer.value < truth or answer.high < truth:
            yield Difference("lost", where, (counter,), truth, answer)
        elif answer != exact[counter]:
            yield Difference("estimate", where, (counter,), exact[counter], answer)
        if answer.low > truth:
            missed.append(counter)
    allowed = MISSES * len(asked) + 5 * math.sqrt(MISSES * len(asked))
    if len(missed) > max(1.0, allowed):
        yield Difference("estimate", where, tuple(missed), "the truth within bounds", len(missed))


def compared_heaviest(
    where: str, key: Where, counts: Mapping[str, int], top: list[tuple[str, int]], k: int
) -> Iterator[Difference]:
    """A ranking by estimates: whoever is not in it is not certainly heavier than who is.

    A counter's place goes by a number within its bounds, so that one with more than the last one's
    and the bounds together must be there; and so must all where there are not more than `k`. One
    with nothing there, a count of 0, is listed where others share all of its buckets.
    """
    family, exact = key[0], estimates(key[0], counts, counts)
    apart = slack(family, counts)
    for counter, count in top:
        if counter not in exact:
            yield Difference("ranking", where, (*key, counter), None, count)
        elif not max(1, exact[counter].low) <= count <= exact[counter].high:
            yield Difference("ranking", where, (*key, counter), exact[counter], count)
    last = top[-1][1] + apart if len(top) >= k else 0
    names = [counter for counter, _ in top]
    if len(set(names)) < len(names) or [count for _, count in top] != sorted(
        (count for _, count in top), reverse=True
    ):
        yield Difference("ranking", where, key, "each once, the greatest first", top)
    for counter, count in counts.items():
        if counter not in names and count > last:
            yield Difference("ranking", where, (*key, counter), count, None)
