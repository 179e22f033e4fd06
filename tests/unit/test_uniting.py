"""Which windows of members are united for a span, and what is said about them."""

from datetime import UTC, datetime

from pipeline.reads.spans import FOREVER_MS, Span
from pipeline.reads.taking import Window
from pipeline.reads.uniting import around, remarks, unite

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TODAY = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp()) * 1000
LATE = Span(TODAY + 11 * HOUR + 30 * MINUTE)
"""From half past eleven on."""


def days_and_hours() -> set[Window]:
    hours: set[Window] = {("1h", TODAY - DAY + hour * HOUR) for hour in range(36)}
    return {("1d", TODAY - DAY), ("1d", TODAY), *hours}


def test_all_there_is_is_united_for_all_time() -> None:
    there = {"views:home": days_and_hours()}
    union = unite(there, Span())
    assert union.taken == there
    assert union.replaced == {"views:home": frozenset()}
    assert union.span == Span(TODAY - DAY, TODAY + DAY)
    assert list(remarks(union, Span(), None)) == []


def test_an_hour_that_is_cut_is_united_whole_and_a_day_gives_way_to_its_hours() -> None:
    union = unite({"views:home": days_and_hours()}, LATE)
    assert union.taken["views:home"] == {("1h", TODAY + 11 * HOUR)}
    assert union.replaced["views:home"] == {("1d", TODAY)}
    assert union.span == Span(TODAY + 11 * HOUR, TODAY + 12 * HOUR)
    [said] = remarks(union, LATE, None)
    assert said.startswith("the hour from 2026-11-16T11:00:00Z is united as a whole")


def test_minutes_are_united_where_they_are_there_even_if_none_is_in_the_span() -> None:
    minute: Window = ("1m", TODAY + 11 * HOUR + 31 * MINUTE)
    earlier: Window = ("1m", TODAY + 11 * HOUR + 5 * MINUTE)
    union = unite({"a:x": {*days_and_hours(), earlier, minute}}, LATE)
    assert union.taken["a:x"] == {minute}
    assert list(remarks(union, LATE, None)) == []
    union = unite({"a:x": {*days_and_hours(), earlier}}, LATE)
    assert union.taken["a:x"] == frozenset()
    assert union.span is None


def test_a_day_without_hours_is_united_whole_at_either_end() -> None:
    span = Span(TODAY - DAY + HOUR, TODAY + HOUR)
    union = unite({"a:x": {("1d", TODAY - 2 * DAY), ("1d", TODAY - DAY), ("1d", TODAY)}}, span)
    assert union.taken["a:x"] == {("1d", TODAY - DAY), ("1d", TODAY)}
    assert [said[:8] for said in remarks(union, span, None)] == ["the day "] * 2


def test_each_counter_has_the_windows_it_has() -> None:
    union = unite({"a:x": days_and_hours(), "b:y": {("1d", TODAY)}}, LATE)
    assert union.taken["b:y"] == {("1d", TODAY)}
    assert union.taken["a:x"] == {("1h", TODAY + 11 * HOUR)}
    assert union.span == Span(TODAY, TODAY + DAY)


def test_whole_windows_inside_are_united_of_every_grain() -> None:
    span = Span(TODAY - DAY, TODAY)
    union = unite({"a:x": days_and_hours()}, span)
    hours = {("1h", TODAY - DAY + hour * HOUR) for hour in range(24)}
    assert union.taken["a:x"] == {("1d", TODAY - DAY), *hours}


def test_windows_that_are_not_there_to_be_listed_are_told() -> None:
    windows: set[Window] = {("1d", TODAY - 2 * DAY), *days_and_hours()}
    union = unite({"a:x": windows}, Span())
    assert list(remarks(union, Span(), "1d")) == []
    [said] = remarks(union, Span(), "1h")
    assert said.startswith("hours before 2026-11-15T00:00:00Z are not kept, all or some")
    [said] = remarks(union, Span(), "1m")
    assert said.startswith("minutes before 2026-11-17T00:00:00Z are not kept")


def test_the_days_around_a_span_are_whole() -> None:
    assert around(Span(TODAY + 5, TODAY + DAY)) == Span(TODAY, TODAY + DAY)
    assert around(Span(TODAY, TODAY + DAY + 1)) == Span(TODAY, TODAY + 2 * DAY)
    assert around(Span()) == Span(0, FOREVER_MS)
