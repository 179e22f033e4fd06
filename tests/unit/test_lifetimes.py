"""How far a total of all time reaches into the log that is counted now."""

from datetime import date
from typing import Any

from pipeline.reads.lifetimes import read_lifetimes
from pipeline.reads.reads import FlushedShard, Reads
from pipeline.reads.settled import Border

NOW_MS = 1_800_000_000_000


class Stored(Reads):
    """A ClickHouse with cells of a log that was lost and of the one after it, and adjustments."""

    def __init__(self, *adjustments: tuple[int, int]) -> None:
        self._adjustments = adjustments

    def monotonic_s(self) -> float:
        return 1.0

    def rows(self, query: str, *_: Any) -> list[tuple[Any, ...]]:
        if "tally.cells_1m" in query:
            month = date(2026, 11, 1)
            return [
                ("likes:a", "", "main", 0, month, 100, 0, 0, 5_000_100),
                ("likes:a", "", "main~1", 0, month, 7, 0, 0, 40),
            ]
        if "tally.adjustments" in query:
            return [("likes:a", "", "", 0, -10, 0, *placed) for placed in self._adjustments]
        return []


def reached(*adjustments: tuple[int, int]) -> tuple[int, dict[int, int] | None]:
    """What is adjusted, and the last offset by shard."""
    at = FlushedShard(0, 45, NOW_MS, 45, NOW_MS, NOW_MS, replica="main~1", build=1)
    border = Border(1, date(1970, 1, 1))
    found = read_lifetimes(Stored(*adjustments), border, ["likes:a"], positions=[at])["likes:a",]
    assert found.life == (107, 0, 0)
    return found.adjusted.of(None)[1], found.latest


def test_an_adjustment_of_a_log_that_was_lost_counts_and_is_no_place_in_the_one_after_it() -> None:
    """Whoever had it in a session could read nothing until the new log is as long."""
    assert reached((5_000_000, NOW_MS - 1)) == (-10, {0: 40})


def test_an_adjustment_of_this_log_is_a_place_before_positions_tell_of_it_too() -> None:
    assert reached((43, NOW_MS - 5)) == (-10, {0: 43})
    assert reached((43, NOW_MS - 5), (46, NOW_MS), (47, NOW_MS + 3)) == (-30, {0: 47})
