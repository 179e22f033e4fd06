"""Times as people ask for them."""

import pytest

from pipeline.errors import BadInputError
from pipeline.reads.asked import asked_span, duration_ms, moment_ms
from pipeline.reads.spans import FOREVER_MS, Span

NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:01", 60_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.0019Z", 1),
        ("1969-12-31T23:59:59Z", -1000),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, at_ms: int) -> None:
    assert moment_ms(text) == at_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59"]
)
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInputError, match="2026-11-16"):
        moment_ms(text)


@pytest.mark.parametrize("text", ["", "0m", "1w", "-1h", "1.5h", "9999999999d", "36501d", "1h "])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="expected a duration"):
        duration_ms(text)


def test_spans_are_cut_to_what_windows_can_have() -> None:
    assert asked_span(None, None, None, NOW_MS) is None
    assert asked_span("60m", None, None, NOW_MS) == Span(NOW_MS - 3_600_000, FOREVER_MS)
    assert asked_span(None, "1960-01-01", "2500-01-01", NOW_MS) == Span(0, FOREVER_MS)
    assert asked_span(None, None, "1970-01-02", NOW_MS) == Span(0, 86_400_000)
    for last, since, until in [
        ("1h", "2026-01-01", None),
        (None, "2026-01-02", "2026-01-01"),
        (None, "2026-01-01", "2026-01-01"),
    ]:
        with pytest.raises(BadInputError):
            asked_span(last, since, until, NOW_MS)
