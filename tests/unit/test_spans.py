"""Which windows a span of time is summed from."""

from datetime import UTC, datetime
from itertools import pairwise

from pipeline.reads.spans import (
    FOREVER_MS,
    GRAIN_MS,
    LIFE,
    Piece,
    Span,
    kept_since,
    pieces,
    remarks,
)
from schemas.rules import Retention

HOUR, DAY = GRAIN_MS["1h"], GRAIN_MS["1d"]
NOW = int(datetime(2026, 11, 16, 8, 20, 30, tzinfo=UTC).timestamp()) * 1000
TODAY = NOW - NOW % DAY
KEPT = kept_since(Retention(), NOW)


def test_all_time_is_the_lifetime_total_beside_the_windows_asked_for() -> None:
    assert pieces(None, None, KEPT) == [LIFE]
    assert pieces(None, "1h", KEPT) == [LIFE, Piece("1h")]


def test_a_short_span_is_summed_from_minutes() -> None:
    hour = Span(NOW - HOUR)
    for by in (None, "1m", "1h", "1d"):
        assert pieces(hour, by, KEPT) == [Piece("1m", hour)]
    assert remarks(hour, "1m", [Piece("1m", hour)], KEPT) == []


def test_a_span_of_whole_windows_is_asked_of_their_grain() -> None:
    days = Span(TODAY - 30 * DAY, TODAY)
    assert pieces(days, "1d", KEPT) == [Piece("1d", days)]
    assert pieces(Span(TODAY - 30 * DAY), "1h", KEPT) == [Piece("1h", Span(TODAY - 30 * DAY))]
    assert remarks(days, "1d", [Piece("1d", days)], KEPT) == []


def test_a_span_longer_than_retention_has_hours_and_days_before_its_minutes() -> None:
    span = Span(NOW - 400 * DAY)
    found = pieces(span, None, KEPT)
    assert [piece.grain for piece in found] == ["1d", "1h", "1m"]
    assert found[0].span.since_ms == span.since_ms
    assert found[-1].span.until_ms == FOREVER_MS
    for before, after in pairwise(found):
        border_ms = before.span.until_ms
        assert border_ms == after.span.since_ms
        assert before.grain != "life"
        assert border_ms % GRAIN_MS[before.grain] == 0, "a window would be counted twice"
    assert found[2].span.since_ms >= KEPT["1m"]
    assert found[1].span.since_ms >= KEPT["1h"]


def test_a_sum_from_coarser_windows_says_so() -> None:
    span = Span(NOW - 30 * DAY)
    found = pieces(span, "1m", KEPT)
    said = remarks(span, "1m", found, KEPT)
    assert len(said) == 2
    assert said[0].startswith("before 2026-11-09T09:00:00Z only hours are left")
    assert said[1].startswith("minutes before 2026-11-09T09:00:00Z are gone")
    # Whole hours are no less exact than minutes.
    whole = Span(TODAY - 30 * DAY)
    assert remarks(whole, None, pieces(whole, None, KEPT), KEPT) == []


def test_days_that_are_gone_are_told() -> None:
    kept = kept_since(Retention.model_validate({"1d": "10d"}), NOW)
    span = Span(TODAY - 20 * DAY)
    [said] = remarks(span, "1d", pieces(span, "1d", kept), kept)
    assert "only the total of all time has them" in said


def test_hours_that_are_kept_shorter_than_minutes_are_not_used() -> None:
    kept = kept_since(Retention.model_validate({"1m": "30d", "1h": "2d"}), NOW)
    found = pieces(Span(NOW - 60 * DAY), None, kept)
    assert [piece.grain for piece in found] == ["1d", "1m"]
    assert found[0].span.until_ms % DAY == 0


def test_minutes_outlive_a_day_whatever_a_family_says() -> None:
    kept = kept_since(Retention.model_validate({"1m": "1h"}), NOW)
    day = Span(NOW - DAY)
    assert pieces(day, None, kept) == [Piece("1m", day)]


def test_a_moment_outside_of_clickhouses_time_is_its_border() -> None:
    assert Span.of(-5, 10**15) == Span(0, FOREVER_MS)
    assert Span.of(None, None) is None
