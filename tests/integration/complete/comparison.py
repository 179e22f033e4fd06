"""Every number that people can ask for, beside the truth."""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

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
    places = tally.rows("SELECT shard, offset, row FROM tally.dead_letters FINAL WHERE build = 1")
    found = {f"{shard}/{offset}/{row}" for shard, offset, row in places}
    assert found == stream.bad_places, f"dead letters: {found ^ stream.bad_places}"
    assert dead_letter_places(tally.kafka) == stream.bad_places


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
