"""Totals of counters, in each mode, for many who ask at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import TryAgainError
from pipeline.metrics.definitions import web as metric
from pipeline.producer.receipts import Places
from pipeline.reads.as_of import COMPLETE_WITHIN_MS
from pipeline.reads.counts import Scope, count_many
from pipeline.reads.flush_requests import as_live
from pipeline.reads.last_places import last_places, united
from pipeline.reads.names_sent import sent_bytes
from pipeline.reads.receipts import told
from pipeline.reads.settled import Settled
from pipeline.slots import spill_counter
from pipeline.web.batches import Batches
from pipeline.web.cache import Cache
from pipeline.web.flushed import covers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from pipeline.reads.counts import CountAnswer, Ground, Mode
    from pipeline.reads.reads import Reads
    from pipeline.reads.receipts import Behind
    from pipeline.web.asking import Asking
    from pipeline.web.flushed import Flushed
    from pipeline.web.flushing import Flushing

POSITIONS_AGE_S = 0.25
"""How old positions may be when sums are read after them: sums hold at least that much."""

POSITIONS_AHEAD_S = 0.1
"""From when on they are asked for again while they still do: sums need not wait for them then."""

LOAD_S_MAX = 1.0
"""How long a cached read waits for the cache before it asks for the exact sum, and then again for
that, before it takes what was known last."""

PATIENCE_S = 0.1
"""The same where something is known, though it is too old, from when on the cache asks anew. So a
slow ClickHouse makes answers older, and says so, instead of making everybody wait."""

LATE_S_MAX = 60.0
"""How old a kept answer may be that is given while ClickHouse is away, said to be incomplete."""


_AWAY = "ClickHouse does not answer"
_SLOW = "ClickHouse is slow"


class Asked(NamedTuple):
    """A counter and a region; no region is all of them."""

    counter: str
    region: str | None


@dataclass(frozen=True)
class Counted:
    """An answer, the places it holds, and when the question for it began.

    It has everything up to `places`. It may have more, as a flush can come between the look at
    positions and the sum; it has nothing beyond `latest`. So whoever has seen it has seen `latest`,
    and another answer is no older if its `places` cover that.
    """

    answer: CountAnswer
    places: Places
    latest: Places
    asked_s: float


class NotCountedYetError(TryAgainError):
    """What somebody waits for is not in ClickHouse yet."""

    def __init__(self, behind: Sequence[Behind], waited_s: float) -> None:
        super().__init__(
            f"not counted within {waited_s:g} s: {told(behind)}; ask again later, "
            "and see tally status"
        )


class Counting:
    """Totals. Owned by one event loop. Methods raise TryAgainError when ClickHouse is away.

    `cached` is at most `cache_age_s` old: the rolled-up total where that is allowed to be as old as
    a rollup, else the exact sum, kept. `exact` is summed after the call. `live` is exact after the
    owners flushed. Strict counters are never answered from memory: their offsets are in no session,
    so that nothing would tell which of two values is the older one.
    """

    def __init__(
        self,
        asking: Asking,
        flushed: Flushed,
        flushing: Flushing,
        clock: Clock,
        meter: Meter,
        *,
        cache_age_s: float,
        rollup_interval_s: float,
    ) -> None:
        self._asking = asking
        self._flushed = flushed
        self._flushing = flushing
        self._clock = clock
        self._meter = meter
        self._cache_age_s = cache_age_s
        self._rollup_interval_ms = round(rollup_interval_s * 1000)
        self._takes_rolled_up = cache_age_s >= rollup_interval_s
        self._settled = Settled(clock)
        self._ground: Ground | None = None
        self._exact = Batches(self._load_exact, bytes_of=_sent_bytes)
        rolled_up = Batches(self._load_rolled_up, bytes_of=_sent_bytes)
        filled = rolled_up if self._takes_rolled_up else self._exact
        self.cache: Cache[Asked, Counted] = Cache(
            filled,
            clock,
            cache_age_s,
            on_read=self._on_cache_read,
            on_warmed=lambda values: meter.add(metric.CACHE_REFRESHES(), values),
        )

    async def cached(self, asked: Asked, seen: Mapping[int, int]) -> Counted:
        """At most the settable age old, and nothing before what was `seen`."""
        self._meter.add(metric.READS_CACHED())
        if self._ground is not None and self._ground.is_strict(asked.counter):
            return self._told(await self._exact.fresh(asked))
        return await (self._cached_since(asked, seen) if seen else self._cached(asked))

    async def _cached(self, asked: Asked) -> Counted:
        found = self.cache.kept(asked)
        if found is not None:
            self._on_cache_read(hit=True)
        else:
            known = self.cache.kept(asked, LATE_S_MAX)
            patience_s = LOAD_S_MAX if known is None else PATIENCE_S - self.cache.loading_s(asked)
            try:
                async with asyncio.timeout(max(0.0, patience_s)):
                    found = await self.cache.get(asked)
            except TimeoutError:
                if known is None:
                    return await self._fallback(asked)
                self._meter.add(metric.READS_FALLBACK())
                return self._late(known, _SLOW)
            except TryAgainError:
                return await self._fallback(asked)
        if self._is_too_old(found):
            return await self._fallback(asked)
        return self._told(self._aged(found, "cached"))

    async def exact(self, asked: Asked, after: Mapping[int, int], wait_s: float) -> Counted:
        """Summed after the call, and after everything up to `after` is counted.

        Raises NotCountedYetError when that is not so after `wait_s`.
        """
        await self.wait(after, wait_s)
        return self._told(await self._exact.fresh(asked))

    async def live(self, asked: Asked, seen: Mapping[int, int], wait_s: float) -> Counted:
        """Exact, after the owners flushed what was in the log before the call.

        A shard that was not flushed in time makes the answer incomplete, and a remark names it. It
        has everything that was `seen` all the same; raises NotCountedYetError when that is not in
        ClickHouse, as it was for others, soon after.
        """
        why_not = await self._flushing.flush(wait_s)
        await self.wait(seen, max(wait_s, LOAD_S_MAX))
        found = await self._exact.fresh(asked)
        return self._told(replace(found, answer=as_live(found.answer, why_not)))

    async def _cached_since(self, asked: Asked, seen: Mapping[int, int]) -> Counted:
        found = self.cache.kept(asked)
        if found is not None and covers(found.places, seen):
            return self._told(self._aged(found, "cached"))
        known = self.cache.kept(asked, LATE_S_MAX)
        if known is not None and not covers(known.places, seen):
            known = None
        try:
            async with asyncio.timeout(LOAD_S_MAX if known is not None else None):
                # What was seen is in ClickHouse, and so are its positions, or soon will be.
                found = await self.exact(asked, seen, LOAD_S_MAX)
        except NotCountedYetError:
            raise
        except (TryAgainError, TimeoutError):
            if known is None:
                raise
            return self._late(known, _AWAY)
        if not self._takes_rolled_up:
            self.cache.keep(asked, found)
        return found

    async def wait(self, after: Mapping[int, int], wait_s: float) -> None:
        """Return when everything up to `after` is counted.

        Raises NotCountedYetError when that is not so after `wait_s`.
        """
        if not after:
            return
        began_s = self._clock.monotonic_s()
        behind = await self._flushed.wait(after, wait_s)
        self._meter.observe(metric.RECEIPT_WAIT_SECONDS(), self._clock.monotonic_s() - began_s)
        self._meter.add(metric.RECEIPT_WAITS("timed_out" if behind else "counted"))
        if behind:
            raise NotCountedYetError(behind, wait_s)

    async def _fallback(self, asked: Asked) -> Counted:
        """The exact sum; while ClickHouse is away or hangs, what was known last.

        Those who fall back at the same time ask together, or a slow ClickHouse would get a question
        from each of them.
        """
        self._meter.add(metric.READS_FALLBACK())
        known = self.cache.kept(asked, LATE_S_MAX)
        try:
            async with asyncio.timeout(LOAD_S_MAX if known is not None else None):
                return self._told(await self._exact.shared(asked))
        except (TryAgainError, TimeoutError):
            if known is None:
                raise
        return self._late(known, _AWAY)

    def _late(self, known: Counted, why: str) -> Counted:
        """What was known last, which is older than a cached answer should be."""
        late = self._aged(known, known.answer.mode)
        remarks = [*late.answer.remarks, f"{why}: this is what was known last"]
        answer = replace(late.answer, complete=False, remarks=remarks)
        return self._told(replace(late, answer=answer))

    def _told(self, found: Counted) -> Counted:
        outcome: metric.ReadOutcome = "complete" if found.answer.complete else "incomplete"
        self._meter.add(metric.READS(found.answer.mode, outcome))
        return found

    def _on_cache_read(self, hit: bool) -> None:
        self._meter.add(metric.CACHE_LOOKUPS("hit" if hit else "miss"))

    def _is_too_old(self, found: Counted) -> bool:
        """Whether what was rolled up is older than a cached answer may be."""
        if not self._takes_rolled_up:
            return False
        return self._staleness_ms(found) > self._cache_age_s * 1000

    def _staleness_ms(self, found: Counted) -> float:
        staleness_ms = found.answer.staleness_ms
        if staleness_ms is None:
            return float("inf")
        return staleness_ms + (self._clock.monotonic_s() - found.asked_s) * 1000

    def _aged(self, found: Counted, mode: Mode) -> Counted:
        """A kept answer as it is now: older, and perhaps no longer complete."""
        answer, staleness_ms = found.answer, self._staleness_ms(found)
        if answer.staleness_ms is None:
            return replace(found, answer=replace(answer, mode=mode))
        limit_ms = max(COMPLETE_WITHIN_MS, self._cache_age_s * 1000)
        complete = answer.complete and staleness_ms < limit_ms
        aged = replace(answer, mode=mode, staleness_ms=round(staleness_ms), complete=complete)
        return replace(found, answer=aged)

    async def _load_exact(self, keys: Sequence[Asked]) -> dict[Asked, Counted]:
        return await self._load(keys, "exact")

    async def _load_rolled_up(self, keys: Sequence[Asked]) -> dict[Asked, Counted]:
        return await self._load(keys, "cached")

    async def _load(self, keys: Sequence[Asked], mode: Mode) -> dict[Asked, Counted]:
        """One question for each region that is asked for."""
        asked_s = self._clock.monotonic_s()
        look = await self._flushed.look(POSITIONS_AGE_S, POSITIONS_AHEAD_S)
        self._ground, places = look.ground, look.places
        regions: dict[str | None, list[str]] = {}
        for key in keys:
            regions.setdefault(key.region, []).append(key.counter)
        found: dict[Asked, Counted] = {}
        for region, counters in regions.items():
            question = partial(
                _count_and_place,
                counters=counters,
                region=region,
                mode=mode,
                rollup_interval_ms=self._rollup_interval_ms,
                ground=look.ground,
                settled=self._settled,
            )
            answers, latest = await self._asking.ask(question)
            for counter, answer in answers.items():
                # What was rolled up holds no place for certain.
                held = places if answer.mode == "exact" else Places()
                found[Asked(counter, region)] = Counted(answer, held, latest[counter], asked_s)
        return found


def _sent_bytes(asked: Asked) -> int:
    """Of its name, and of its family's rest, which is asked for with it."""
    return sent_bytes(asked.counter) + sent_bytes(spill_counter(asked.counter.partition(":")[0]))


def _count_and_place(
    reads: Reads,
    counters: Sequence[str],
    region: str | None,
    *,
    mode: Mode,
    rollup_interval_ms: int,
    ground: Ground,
    settled: Settled,
) -> tuple[dict[str, CountAnswer], dict[str, Places]]:
    """The answers, and beyond which places none of them holds anything. Blocks."""
    scope = Scope(region=region)
    answers = count_many(
        reads, counters, scope, mode, rollup_interval_ms, ground=ground, settled=settled
    )
    latest = {
        counter: Places(answer.latest)
        for counter, answer in answers.items()
        if answer.latest is not None
    }
    unknown = [counter for counter in counters if counter not in latest]
    return answers, latest if not unknown else {**latest, **_read_places(reads, answers, unknown)}


def _read_places(
    reads: Reads, answers: Mapping[str, CountAnswer], counters: Sequence[str]
) -> dict[str, Places]:
    # An estimate is of what the family spilled, whose cells are those of the rest.
    rests = {
        counter: [spill_counter(counter.partition(":")[0]), spill_counter("")]
        for counter in counters
        if answers[counter].low is not None
    }
    names = dict.fromkeys([*counters, *(rest for found in rests.values() for rest in found)])
    found = last_places(reads, list(names))
    return {
        counter: united(found[name] for name in (counter, *rests.get(counter, ())))
        for counter in counters
    }
