"""Every number that people can ask for, beside the truth."""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from clickhouse_cityhash.cityhash import CityHash64

from tests.integration.worker.offsets import dead_letter_places
from tests.integration.worker.stream import Stream
from tests.kit.tally import RunningTally

GRAINS_S = {"1m": 60, "1h": 3_600, "1d": 86_400}


def compare(tally: RunningTally, stream: Stream) -> None:
    """Raise AssertionError where a window, region, total, duplicate or dead letter differs."""
    for grain, seconds in GRAINS_S.items():
        by_region: dict[Any, int] = defaultdict(int)
        together: dict[Any, int] = defaultdict(int)
        for (counter, region, window_s), count in stream.truth.windows.items():
            start_s = window_s // seconds * seconds
            by_region[counter, region, start_s] += count
            together[counter, start_s] += count
        asked = f"toUnixTimestamp(window), toInt64(count) FROM tally.counts_by_region_{grain}"
        _equal(f"regions of {grain}", by_region, _rows(tally, f"SELECT counter, region, {asked}"))
        asked = f"toUnixTimestamp(window), toInt64(count) FROM tally.counts_{grain}"
        _equal(f"windows of {grain}", together, _rows(tally, f"SELECT counter, {asked}"))
    totals = _rows(tally, "SELECT counter, toInt64(net) FROM tally.totals")
    _equal("totals", stream.truth.totals(), {key: net for (key,), net in totals.items()})
    _equal("duplicates", stream.truth.duplicates, _duplicates(tally))
    for grain in ("1h", "1d"):
        _equal(f"registers of {grain}", _registers(stream, GRAINS_S[grain]), _found(tally, grain))
    places = tally.rows("SELECT shard, offset, row FROM tally.dead_letters FINAL WHERE build = 1")
    found = {f"{shard}/{offset}/{row}" for shard, offset, row in places}
    assert found == stream.bad_places, f"dead letters: {found ^ stream.bad_places}"
    assert dead_letter_places(tally.kafka) == stream.bad_places


def _registers(stream: Stream, seconds: int) -> dict[Any, int]:
    """By the definition: the first 12 bits choose a register, the zeros after them are its rank."""
    found: dict[Any, int] = defaultdict(int)
    for (counter, region, window_s), members in stream.truth.members.items():
        for member in members:
            digits = f"{CityHash64(member.encode()):064b}"
            rank = len(digits[12:]) - len(digits[12:].lstrip("0")) + 1
            place = (counter, region, window_s // seconds * seconds, int(digits[:12], 2))
            found[place] = max(found[place], rank)
    return found


def _found(tally: RunningTally, grain: str) -> dict[Any, int]:
    return _rows(
        tally,
        "SELECT counter, region, start, register, max(rank) FROM (SELECT counter, region, "
        "toUnixTimestamp(window) AS start, arrayJoin(registers) AS pair, pair.1 AS register, "
        f"pair.2 AS rank FROM tally.distinct_{grain} WHERE build = 1 AND precision = 12) "
        "GROUP BY counter, region, start, register",
    )


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
