"""Every number that people can ask for, beside the truth."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from clickhouse_cityhash.cityhash import CityHash64

from tests.integration.worker.events import Truth
from tests.integration.worker.offsets import dead_letter_places
from tests.kit.registers import registers_of
from tests.kit.tally import RunningTally

GRAINS_S = {"1m": 60, "1h": 3_600, "1d": 86_400}
SKETCHED = "tag"
"""The family without cells of its counters: they are counted under `tag:`, and in sketches."""

SKETCH_ERROR = 0.05
_ROWS, _WIDTH = 6, 55  # of a Count-Min with that error


class Sent(Protocol):
    """What a stream sent, as far as it matters here."""

    @property
    def truth(self) -> Truth: ...

    @property
    def bad_places(self) -> set[str]: ...


def compare(tally: RunningTally, streams: Sequence[Sent]) -> None:
    """Raise AssertionError where anything differs from what the streams sent."""
    _compare_counts(tally, streams)
    for grain in ("1h", "1d"):
        expected = _registers(streams, GRAINS_S[grain])
        _equal(f"registers of {grain}", expected, _found_registers(tally, grain))
    _equal("buckets", _buckets(streams), _found_buckets(tally))
    bad = set().union(*(stream.bad_places for stream in streams))
    places = tally.rows("SELECT shard, offset, row FROM tally.dead_letters FINAL WHERE build = 1")
    found = {f"{shard}/{offset}/{row}" for shard, offset, row in places}
    assert found == bad, f"dead letters: {found ^ bad}"
    assert dead_letter_places(tally.kafka) == bad


def _compare_counts(tally: RunningTally, streams: Sequence[Sent]) -> None:
    for grain, seconds in GRAINS_S.items():
        by_region: dict[Any, int] = defaultdict(int)
        together: dict[Any, int] = defaultdict(int)
        for (counter, region, window_s), count in _placed(streams, "windows"):
            start_s = window_s // seconds * seconds
            by_region[counter, region, start_s] += count
            together[counter, start_s] += count
        asked = f"toUnixTimestamp(window), toInt64(count) FROM tally.counts_by_region_{grain}"
        _equal(f"regions of {grain}", by_region, _rows(tally, f"SELECT counter, region, {asked}"))
        asked = f"toUnixTimestamp(window), toInt64(count) FROM tally.counts_{grain}"
        _equal(f"windows of {grain}", together, _rows(tally, f"SELECT counter, {asked}"))
    totals: dict[Any, int] = defaultdict(int)
    for (counter, _, _), count in _placed(streams, "windows"):
        totals[counter,] += count
    _equal("totals", totals, _rows(tally, "SELECT counter, toInt64(net) FROM tally.totals"))
    duplicates: dict[Any, int] = defaultdict(int)
    for stream in streams:
        for counter, count in stream.truth.duplicates.items():
            duplicates[_place(counter, "")[0]] += count
    _equal("duplicates", duplicates, _duplicates(tally))


def _place(counter: str, region: str) -> tuple[str, str]:
    """Under which counter and region an event is in cells."""
    return (f"{SKETCHED}:", "") if counter.startswith(f"{SKETCHED}:") else (counter, region)


def _placed(streams: Sequence[Sent], what: str) -> Iterator[tuple[tuple[str, str, int], Any]]:
    for stream in streams:
        for (counter, region, window_s), value in getattr(stream.truth, what).items():
            yield (*_place(counter, region), window_s), value


def _registers(streams: Sequence[Sent], seconds: int) -> dict[Any, int]:
    found: dict[Any, int] = defaultdict(int)
    for (counter, region, window_s), members in _placed(streams, "members"):
        for register, rank in registers_of(members).items():
            place = (counter, region, window_s // seconds * seconds, register)
            found[place] = max(found[place], rank)
    return found


def _found_registers(tally: RunningTally, grain: str) -> dict[Any, int]:
    return _rows(
        tally,
        "SELECT counter, region, start, register, max(rank) FROM (SELECT counter, region, "
        "toUnixTimestamp(window) AS start, arrayJoin(registers) AS pair, pair.1 AS register, "
        f"pair.2 AS rank FROM tally.distinct_{grain} WHERE build = 1 AND precision = 12) "
        "GROUP BY counter, region, start, register",
    )


def _buckets(streams: Sequence[Sent]) -> dict[Any, int]:
    """What the Count-Min of each region and minute must hold, additions and removals apart."""
    found: dict[Any, int] = defaultdict(int)
    for stream in streams:
        for ((counter, region, window_s), is_added), amount in stream.truth.sketched.items():
            if counter.startswith(f"{SKETCHED}:"):
                for bucket in _buckets_of(counter):
                    found[region, window_s, bucket, is_added] += amount
    return found


def _buckets_of(counter: str) -> Iterator[int]:
    """By the definition: a row scatters its number, multiplies the hash by it, and scales."""
    bits = 2**64 - 1
    for row in range(_ROWS):
        x = (row + 0x9E3779B97F4A7C15) & bits
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & bits
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & bits
        top = (CityHash64(counter.encode()) * ((x ^ (x >> 31)) | 1) & bits) >> 32
        yield row * _WIDTH + (top * _WIDTH >> 32)


def _found_buckets(tally: RunningTally) -> dict[Any, int]:
    rows = tally.rows(
        "SELECT toString(region), toUnixTimestamp(window), bucket, toInt64(sum(p)), toInt64(sum(n))"
        " FROM (SELECT region, window, bucket, max(frequency_1m.p) AS p, max(frequency_1m.n) AS n "
        f"FROM tally.frequency_1m WHERE build = 1 AND family = '{SKETCHED}' AND width = {_WIDTH} "
        "GROUP BY region, window, bucket, slot, replica, shard) GROUP BY region, window, bucket"
    )
    return {
        (region, window_s, bucket, is_added): amount
        for region, window_s, bucket, *amounts in rows
        for is_added, amount in zip((True, False), amounts, strict=True)
        if amount
    }


def _rows(tally: RunningTally, query: str) -> dict[Any, int]:
    rows = tally.rows(query)
    found = {tuple(key): value for *key, value in rows}
    assert len(found) == len(rows)
    return found


def _duplicates(tally: RunningTally) -> dict[str, int]:
    rows = tally.rows(
        "SELECT counter, toInt64(sum(d)) FROM (SELECT counter, max(duplicates) AS d "
        "FROM tally.cells_1m WHERE build = 1 "
        "GROUP BY counter, region, window, slot, replica, shard) GROUP BY counter"
    )
    return {counter: count for counter, count in rows if count}


def _equal(what: str, expected: Mapping[Any, int], found: Mapping[Any, int]) -> None:
    differences = {
        key: (expected.get(key), found.get(key))
        for key in {**expected, **found}
        if expected.get(key) != found.get(key)
    }
    assert not differences, (
        f"{len(differences)} of {len(expected)} {what} differ (expected, found): "
        f"{dict(itertools.islice(differences.items(), 10))}"
    )
