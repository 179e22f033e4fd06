"""Which windows a span of time is summed from."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.reads import cell_sql
from pipeline.reads.reads import Reads
from pipeline.reads.spans import FOREVER_MS, LIFE, Piece, Plan, Span, plan, sure_since
from pipeline.reads.sums import ATTEMPTS_MAX, read_sums
from pipeline.reads.taking import Values, Window, remarks, take, total
from schemas.rules import GRAIN_MS, Grain

MINUTE, HOUR, DAY = GRAIN_MS["1m"], GRAIN_MS["1h"], GRAIN_MS["1d"]
NOW = int(datetime(2026, 11, 16, 8, 20, 30, tzinfo=UTC).timestamp()) * 1000
TODAY = NOW - NOW % DAY
SURE = sure_since(NOW, [])
GRAINS: tuple[Grain, ...] = ("1d", "1h", "1m")


def test_all_time_is_the_lifetime_total_and_windows_are_beside_it_only_if_asked_for() -> None:
    assert plan(None, None, SURE).pieces == (LIFE,)
    assert plan(None, "1d", SURE).pieces == (
        LIFE,
        Piece("1d", Span(0, TODAY)),
        Piece("1d", Span(TODAY)),
    )


def test_the_sliding_hour_and_day_are_read_from_minutes_alone() -> None:
    for since_ms in (NOW - HOUR, NOW - DAY):
        for by in (None, *GRAINS):
            assert plan(Span(since_ms), by, SURE).pieces == (Piece("1m", Span(since_ms)),)


def test_minutes_and_hours_are_read_only_at_the_edges_that_cut_a_day_or_an_hour() -> None:
    since = TODAY - 400 * DAY + 5 * HOUR + 7 * MINUTE
    day, hour = TODAY - 400 * DAY, TODAY - 400 * DAY + 5 * HOUR
    assert plan(Span(since), None, SURE).pieces == (
        Piece("1d", Span(day, TODAY)),
        Piece("1h", Span(day, day + DAY)),
        Piece("1m", Span(hour, hour + HOUR)),
        Piece("1d", Span(TODAY)),
    )
    whole = Span(TODAY - 30 * DAY, TODAY - 9 * DAY)
    assert plan(whole, "1d", SURE).pieces == (Piece("1d", whole),)


def test_windows_of_one_grain_are_read_together() -> None:
    """Each view more would be as long to plan as all that it is made of."""
    cut = Span(TODAY - 400 * DAY + 5 * HOUR + 7 * MINUTE, TODAY - 30 * DAY + 9 * MINUTE)
    for asked in (plan(None, "1m", SURE), plan(None, "1d", SURE), plan(cut, None, SURE)):
        assert len({piece.grain for piece in asked.pieces}) < len(asked.pieces)
        query = cell_sql.cells(asked.pieces)
        for piece in asked.pieces:
            assert query.count(f"FROM tally.merged_{piece.grain} ") == 1
            assert piece.grain == "life" or cell_sql.within(piece.span) in query


def test_what_is_sure_goes_by_the_later_of_this_clock_and_the_log() -> None:
    assert sure_since(NOW, [NOW - DAY, NOW + DAY]) == sure_since(NOW + DAY, [])
    assert sure_since(NOW, [0]) == sure_since(NOW, []) <= NOW - DAY
    assert sure_since(5, []) == 0


def read(
    asked: Plan, minutes: Mapping[int, Values], gone: Mapping[Grain, set[int]]
) -> dict[Window, Values]:
    """The windows of a plan as views give them, where `gone` has days without finer windows."""
    found: dict[Window, Values] = {}
    for piece in asked.pieces:
        assert piece.grain != "life"
        size, read_before = GRAIN_MS[piece.grain], set(found)
        for at_ms, values in minutes.items():
            window: Window = (piece.grain, at_ms - at_ms % size)
            lost = at_ms - at_ms % DAY in gone.get(piece.grain, set())
            if piece.span.since_ms <= window[1] < piece.span.until_ms and not lost:
                assert window not in read_before, "read twice"
                found[window] = total([found.get(window, (0, 0, 0)), values])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_sum_is_exact_or_says_which_window_it_cut_whatever_was_dropped(seed: int) -> None:
    chance = random.Random(seed)
    minutes: dict[int, Values] = {
        NOW - NOW % MINUTE - chance.randrange(6 * 1440) * MINUTE: (chance.randrange(1, 9), 1, 0)
        for _ in range(1500)
    }
    # Nothing of yesterday can be gone.
    old_days = [TODAY - back * DAY for back in range(2, 8)]
    gone_1m = {day for day in old_days if chance.random() < 0.5}
    gone: dict[Grain, set[int]] = {
        "1m": gone_1m,
        "1h": {day for day in gone_1m if chance.random() < 0.5},
    }
    step = chance.choice([MINUTE, HOUR, DAY])
    since, until = sorted(
        at - at % step for at in (NOW - chance.randrange(6 * DAY), NOW - chance.randrange(6 * DAY))
    )
    span = Span(since, chance.choice([until + step, FOREVER_MS]))
    by = chance.choice([None, *GRAINS])
    asked = plan(span, by, SURE)
    taken = take(asked, read(asked, minutes, gone))
    said = remarks(asked, taken.coarse, 0)

    def rounded(bound: int) -> int:
        day = bound - bound % DAY
        grain = DAY if day in gone["1h"] else HOUR if day in gone["1m"] else MINUTE
        return -(-bound // grain) * grain

    bounds = rounded(span.since_ms), rounded(span.until_ms)
    expected = [values for at, values in minutes.items() if bounds[0] <= at < bounds[1]]
    assert total(taken.windows.values()) == total(expected)
    exact = [values for at, values in minutes.items() if span.since_ms <= at < span.until_ms]
    if total(exact) != total(expected):
        assert any("the time asked for" in remark for remark in said)
    if not taken.coarse:
        assert said == []
    if by and any(GRAIN_MS[grain] > GRAIN_MS[by] for grain, _ in taken.windows):
        assert "not listed" in said[-1]


def test_an_hour_without_its_minutes_is_taken_if_it_begins_in_the_time_asked_for() -> None:
    day = TODAY - 5 * DAY
    minutes = {day + 3 * HOUR + 10 * MINUTE: (4, 0, 0), day + 5 * HOUR + 10 * MINUTE: (2, 0, 0)}
    span = Span(day + 3 * HOUR + 5 * MINUTE, day + 5 * HOUR + 5 * MINUTE)
    asked = plan(span, None, SURE)
    assert total(take(asked, read(asked, minutes, {})).windows.values()) == (4, 0, 0)
    taken = take(asked, read(asked, minutes, {"1m": {day}}))
    assert taken.windows == {("1h", day + 5 * HOUR): (2, 0, 0)}
    first, second = remarks(asked, taken.coarse, 0)
    assert first.startswith(
        "minutes of the hour from 2026-11-11T03:00:00Z are gone: it is left out"
    )
    assert second.startswith("minutes of the hour from 2026-11-11T05:00:00Z are gone: all of it is")


def test_minutes_that_are_gone_are_in_the_total_and_a_remark_but_not_listed() -> None:
    day = TODAY - 5 * DAY
    minutes = {day + HOUR: (4, 0, 0), day + DAY + HOUR: (2, 0, 0)}
    asked = plan(Span(day), "1m", SURE)
    taken = take(asked, read(asked, minutes, {"1m": {day}}))
    assert taken.windows == {("1h", day + HOUR): (4, 0, 0), ("1m", day + DAY + HOUR): (2, 0, 0)}
    [said] = remarks(asked, taken.coarse, 0)
    assert said.startswith("minutes before 2026-11-11T02:00:00Z are gone, all or some")


class Uneven(Reads):
    """Answers in turn, as ClickHouse does when something is counted between two of its reads."""

    def __init__(self, *answers: list[tuple[object, ...]]) -> None:
        self.answers = list(answers)

    def rows(
        self,
        query: str,  # noqa: ARG002 - as in Reads
        parameters: Mapping[str, Any] | None = None,  # noqa: ARG002 - as in Reads
        settings: Mapping[str, Any] | None = None,  # noqa: ARG002 - as in Reads
    ) -> Sequence[Sequence[Any]]:
        return self.answers.pop(0)


def test_a_count_between_two_reads_is_not_taken_for_minutes_that_are_gone() -> None:
    day = TODAY - 5 * DAY
    asked = plan(Span(day, day + DAY), "1h", SURE)

    def rows(of_day: int, of_hour: int) -> list[tuple[object, ...]]:
        return [("1d", day // 1000, of_day, 0, 0, "a:b"), ("1h", day // 1000, of_hour, 0, 0, "a:b")]

    found = read_sums(Uneven(rows(5, 4), rows(5, 5)), asked, ["a:b"])["a:b",].taken
    assert (found.windows, found.coarse) == ({("1h", day): (5, 0, 0)}, set())
    found = read_sums(Uneven(*[rows(5, 4)] * ATTEMPTS_MAX), asked, ["a:b"])["a:b",].taken
    assert (found.windows, found.coarse) == ({("1d", day): (5, 0, 0)}, {("1d", day)})


def test_days_that_are_gone_are_told() -> None:
    asked = plan(Span(TODAY - 20 * DAY), "1d", SURE)
    [said] = remarks(asked, [], TODAY - 15 * DAY)
    assert "only the total of all time has them" in said
    assert remarks(asked, [], TODAY - 20 * DAY) == []


def test_a_moment_outside_of_clickhouses_time_is_its_border() -> None:
    assert Span.of(-5, 10**15) == Span(0, FOREVER_MS)
    assert Span.of(None, None) is None


def test_a_time_in_which_nothing_can_be_is_asked_for_all_the_same() -> None:
    """Without a piece the statement would be none: an error, and never an answer."""
    for bounds in ((FOREVER_MS + 1, None), (None, -1), (-2, -1)):
        span = Span.of(*bounds)
        assert span is not None
        [piece] = plan(span, "1h", SURE).pieces
        assert piece.span.since_ms == piece.span.until_ms
