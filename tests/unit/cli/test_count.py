"""What `tally count` and `tally explain` take for a time, before they ask anybody."""

import pytest

from pipeline.cli import run
from pipeline.cli.times import asked_span
from pipeline.reads.counts import default_mode
from pipeline.reads.spans import FOREVER_MS, Span
from schemas.families import Families, parse_families

NOW_MS = 1_760_000_000_000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["count", "a:b", "--last", "1h", "--since", "2026-01-01"], "--last or --since"),
        (["count", "a:b", "--since", "2026-01-02", "--until", "2026-01-01"], "ends before"),
        (["count", "a:b", "--last", "soon"], "expected a duration"),
        (["count", "a:b", "--mode", "guessed"], "guessed"),
        (["explain", "a:b", "--last", "1h", "--window", "2026-01-01"], "--window or --last"),
        (["explain", "a:b", "--window", "noon"], "is no time"),
    ],
)
def test_a_time_that_makes_no_sense_is_wrong_usage(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err


def test_last_is_up_to_now_and_beyond_since_events_may_be_a_little_ahead() -> None:
    assert asked_span("60m", None, None, NOW_MS) == Span(NOW_MS - 3_600_000, FOREVER_MS)


def test_since_and_until_are_utc_and_no_time_is_all_time() -> None:
    assert asked_span(None, "1970-01-02", "1970-01-02T02:00+01:00", NOW_MS) == Span(
        86_400_000, 90_000_000
    )
    assert asked_span(None, "1970-01-02", None, NOW_MS) == Span(86_400_000, FOREVER_MS)
    assert asked_span(None, None, None, NOW_MS) is None


def test_a_count_is_exact_unless_the_file_says_otherwise() -> None:
    assert default_mode(Families(), "likes:x") == "exact"
    silent = parse_families('[families.likes]\nlateness = "2h"')
    assert default_mode(silent, "likes:x") == "exact"
    said = parse_families('[default]\nread_mode = "cached"\n[families.likes]\nread_mode = "exact"')
    assert default_mode(said, "other:x") == "cached"
    assert default_mode(said, "likes:x") == "exact"
