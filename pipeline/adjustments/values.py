# ruff: noqa: S608 - what is put into statements are constants; values are bound by the client.
"""What counters and windows have now, of many at once, and which adjustments are stored already."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.reads import live, sketched, spans
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.reads.reads import Reads
    from schemas.adjustments import Contents, Draft

CHUNK_BYTES = 100_000
"""Of names in one query; ClickHouse takes 256 KiB of a statement."""

ANY_REGION = ""


class Target(NamedTuple):
    """What an adjustment is about. Grain "" is the total, region "" stands for all of them."""

    counter: str
    region: str
    grain: str
    at_ms: int


def target_of(draft: Draft) -> Target:
    """What a draft is about."""
    return Target(draft.counter, draft.region, *draft.target)


def containing(draft: Draft) -> Iterator[Target]:
    """Everything whose value a draft changes, once each."""
    grain, at_ms = draft.target
    for region in {ANY_REGION, draft.region}:
        yield Target(draft.counter, region, "", 0)
        for coarser, size_ms in GRAIN_MS.items():
            if grain and size_ms >= GRAIN_MS[grain]:  # type: ignore[index]  # of a Draft
                yield Target(draft.counter, region, coarser, at_ms - at_ms % size_ms)


def values(reads: Reads, drafts: Sequence[Draft]) -> dict[Target, int]:
    """What each target has now, summed over all shards; where that is nothing it is left out.

    Blocks; raises TryAgainError. Estimates of sketched counters are read one by one.
    """
    wanted = {target_of(draft) for draft in drafts}
    found: dict[Target, int] = {}
    for grain in ("", *GRAIN_MS):
        of_grain = [target for target in wanted if target.grain == grain]
        for chunk in _chunks(sorted({target.counter for target in of_grain})):
            times = [one.at_ms // 1000 for one in of_grain if one.counter in chunk]
            for counter, region, at_s, net in reads.rows(
                _query(grain), {"counters": tuple(chunk), "since": min(times), "until": max(times)}
            ):
                for place in {ANY_REGION, str(region)}:
                    target = Target(counter, place, grain, int(at_s) * 1000)
                    if target in wanted:
                        found[target] = found.get(target, 0) + int(net)
    for target, estimate in _estimates(reads, wanted):
        found[target] = found.get(target, 0) + estimate
    return found


def stored(reads: Reads, drafts: Sequence[Draft]) -> dict[tuple[str, str], Contents]:
    """What is stored under ids of the drafts, by counter and id. Blocks; raises TryAgainError."""
    ids = {(draft.counter, draft.id) for draft in drafts}
    found: dict[tuple[str, str], Contents] = {}
    for chunk in _chunks(sorted({draft.counter for draft in drafts})):
        for counter, id_, by, region, grain, at_s in reads.rows(
            "SELECT counter, id, p - n, toString(region), toString(grain), toUnixTimestamp(window) "
            f"FROM tally.held_adjustments WHERE {live.OWN} AND counter IN %(counters)s",
            {"counters": tuple(chunk)},
        ):
            if (counter, id_) in ids:
                found[counter, id_] = (int(by), region, grain, int(at_s) * 1000)
    return found


def _query(grain: str) -> str:
    at = "toUnixTimestamp(window)" if grain else "toUInt32(0)"
    inside = (
        "AND window >= toDateTime(%(since)s, 'UTC') AND window <= toDateTime(%(until)s, 'UTC') "
        if grain
        else ""
    )
    return (
        f"SELECT counter, toString(region) AS place, {at} AS start, sum(p) - sum(n) "
        f"FROM tally.adjusted_{grain or 'life'} "
        f"WHERE {live.ALL} AND counter IN %(counters)s {inside}GROUP BY counter, place, start"
    )


def _chunks(counters: Sequence[str]) -> Iterator[set[str]]:
    chunk: set[str] = set()
    size = 0
    for counter in counters:
        chunk.add(counter)
        size += len(counter.encode()) + 4
        if size > CHUNK_BYTES:
            yield chunk
            chunk, size = set(), 0
    if chunk:
        yield chunk


def _estimates(reads: Reads, wanted: Iterable[Target]) -> Iterator[tuple[Target, int]]:
    """What sketches have of the targets beside their cells, where a family has any."""
    has_sketches: dict[str, bool] = {}
    sure_ms: int | None = None
    for target in sorted(wanted):
        family = target.counter.partition(":")[0]
        if family not in has_sketches:
            has_sketches[family] = bool(sketched.sketches(reads, family, None))
        if not has_sketches[family]:
            continue
        if sure_ms is None:
            log_times = (shard.log_ms for shard in reads.positions())
            sure_ms = spans.sure_since(reads.now_ms(), log_times)
        plan = spans.plan(_span(target), None, sure_ms)
        region = target.region or None
        estimates: Mapping[str, sketched.Estimated] = sketched.estimates(
            reads, [target.counter], plan, region=region
        )
        if target.counter in estimates:
            yield target, estimates[target.counter].total.value


def _span(target: Target) -> spans.Span | None:
    if not target.grain:
        return None
    size_ms = GRAIN_MS[target.grain]  # type: ignore[index]  # of a Draft
    return spans.Span(target.at_ms, target.at_ms + size_ms)
