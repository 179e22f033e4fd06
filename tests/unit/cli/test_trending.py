"""What `tally trending` takes for a question, and how it puts the answer."""

import pytest

from pipeline.cli import run
from pipeline.cli.trending import KindOption, trending_frame
from pipeline.cli.watch import frame_lines
from pipeline.reads.as_of import AsOf
from pipeline.reads.trends import KINDS, TrendingAnswer, TrendingCounter

NOW_MS = 1_790_000_400_000
KNOWN = AsOf(NOW_MS - 90_000, 90_000, complete=True)
WINDOW = "2026-09-21T14:17:00Z"
BURST = TrendingCounter(1, "t:a", 1234, 56.4, 23.44, "rising", 1, "2026-09-21T14:16:00Z")
SLOW = TrendingCounter(2, "t:\x1bb", 60, 0.25, 13.5, "new", 60, "2026-09-21T14:10:00Z")
LEADER = TrendingCounter(3, "t:c", 5000, 4900.0, 0.2, "top", 60, None)


def answer(*rows: TrendingCounter, **more: object) -> TrendingAnswer:
    known = {
        "family": "t",
        "region": "*",
        "window": WINDOW,
        "provisional": False,
        "trending": list(rows),
        "known": KNOWN,
        "remarks": [],
    }
    return TrendingAnswer(**{**known, **more})  # type: ignore[arg-type]  # of many types


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["trending"], "Missing argument"),
        (["trending", "likes:x"], "is it 'likes'"),
        (["trending", "likes", "-k", "0"], "-k"),
        (["trending", "likes", "--at", "noon"], "is no time"),
        (["trending", "likes", "--now", "--at", "2026-01-01"], "--now or --at"),
        (["trending", "likes", "--kind", "hot"], "hot"),
        (["trending", "likes", "--watch", "--json"], "--watch or --json"),
    ],
)
def test_a_question_that_makes_no_sense_is_wrong_usage(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err


def test_the_kinds_to_ask_for_are_those_there_are() -> None:
    assert [kind.value for kind in KindOption] == list(KINDS)


def test_a_line_says_why_how_much_and_since_when() -> None:
    frame = trending_frame(answer(BURST, SLOW, LEADER), in_words=True)
    assert frame_lines(None, frame, NOW_MS, None) == [
        "t trending, all regions, minute 2026-09-21T14:17:00Z, 90.0 s old",
        "1    t:a      rising    1,234 instead of 56 in a minute  score 23.4  since 14:16Z",
        "2    t:\\x1bb     new       60 instead of 0.2 in an hour  score 13.5  since 14:10Z",
        "3    t:c         top  5,000 instead of 4,900 in an hour   score 0.2",
    ]


def test_another_day_than_the_minute_s_is_named() -> None:
    [row] = trending_frame(answer(BURST, window="2026-09-22T00:05:00Z"), in_words=True).rows
    assert row.figures[-1] == "since 2026-09-21 14:16Z"


def test_a_narrow_terminal_has_room_for_names_and_bars_by_score() -> None:
    frame = trending_frame(answer(BURST, LEADER), in_words=False)
    lines = frame_lines(None, frame, NOW_MS, 80)
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("1    t:a  rising     1,234 instead of 56  23.4  █")
    bars = [line.count("█") for line in lines[1:]]
    assert bars[0] > 20
    assert bars[1] == 1


def test_what_is_not_over_is_marked_in_the_text_and_in_the_document() -> None:
    found = answer(BURST, provisional=True)
    frame = trending_frame(found, in_words=True)
    assert frame.title.endswith(", provisional")
    assert frame.notes[0].startswith("provisional: this minute is not over")
    assert found.document()["provisional"] is True


def test_a_place_among_chosen_kinds_is_still_that_of_the_ranking() -> None:
    [_, line] = frame_lines(None, trending_frame(answer(LEADER), in_words=True), NOW_MS, None)
    assert line.startswith("3    t:c")


def test_the_document_has_what_other_programs_read() -> None:
    row = {
        "rank": 1,
        "counter": "t:a",
        "observed": 1234,
        "expected": 56.4,
        "score": 23.44,
        "kind": "rising",
        "horizon_minutes": 1,
        "entered": "2026-09-21T14:16:00Z",
    }
    assert answer(BURST).document() == {
        "family": "t",
        "region": "*",
        "window": WINDOW,
        "provisional": False,
        "trending": [row],
        "as_of": "2026-09-21T14:18:30.000Z",
        "staleness_ms": 90_000,
        "complete": True,
    }
    nothing = answer(window=None, known=AsOf(None, None, complete=False), remarks=["why"])
    document = nothing.document()
    assert (document["window"], document["as_of"], document["remarks"]) == (None, None, ["why"])
    assert trending_frame(nothing, in_words=True).notes == ("why",)


def test_a_shard_that_is_away_is_a_note() -> None:
    away = AsOf(NOW_MS, 0, complete=False)
    [note] = trending_frame(answer(BURST, known=away), in_words=True).notes
    assert note.startswith("not complete")
