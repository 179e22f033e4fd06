"""What `tally top` and `tally rank` take for a question, and how they put the answer."""

import pytest

from pipeline.cli import run
from pipeline.cli.count import GrainOption
from pipeline.cli.rank import rank_lines
from pipeline.cli.top import asked_period, top_frame
from pipeline.reads.as_of import AsOf, as_of, expected_shards
from pipeline.reads.family_windows import Period
from pipeline.reads.ranking import RankedCounter, Row, ranked
from pipeline.reads.reads import FlushedShard
from pipeline.reads.spans import FOREVER_MS, Span
from pipeline.reads.top import RankAnswer, Ranking, TopAnswer
from pipeline.rules import CountingRules

HOUR_MS = 3_600_000
NOW_MS = 1_790_000_400_000
KNOWN = AsOf(NOW_MS, 5, complete=True)
RANKING = Ranking("t", "*", "last 1h", "a", None, KNOWN, None, [])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["top"], "Missing argument"),
        (["top", "likes:x"], "is it 'likes'"),
        (["top", "likes", "-k", "0"], "-k"),
        (["top", "likes", "--window", "2h"], "2h"),
        (["top", "likes", "--window", "1h", "--last", "1h"], "--window or --last"),
        (["top", "likes", "--at", "2026-01-01"], "--at needs --window"),
        (["top", "likes", "--window", "1h", "--at", "noon"], "is no time"),
        (["top", "likes", "--last", "soon"], "expected a duration"),
        (["top", "likes", "--watch", "--json"], "--watch or --json"),
        (["top", "likes", "--watch", "0"], "--watch"),
        (["rank", "likes:x", "--window", "1h", "--last", "1h"], "--window or --last"),
    ],
)
def test_a_question_that_makes_no_sense_is_wrong_usage(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err


def test_the_time_asked_for_is_the_last_hour_unless_told() -> None:
    assert asked_period(None, None, None) == Period(last_ms=HOUR_MS)
    assert asked_period(None, None, "90m") == Period(last_ms=90 * 60_000)
    moment = asked_period(GrainOption.DAY, "1970-01-02T07:00", None)
    assert moment == Period(grain="1d", at_ms=31 * HOUR_MS)


def test_a_period_slides_or_is_a_window() -> None:
    now_ms = 100 * HOUR_MS + 90_000
    sliding = Period(last_ms=HOUR_MS).span(now_ms, 0)
    assert sliding == Span(99 * HOUR_MS + 90_000, FOREVER_MS)
    assert Period(last_ms=HOUR_MS).text(sliding) == "last 1h"
    newest = Period(grain="1h").span(now_ms, 98 * HOUR_MS + 60_000)
    assert newest == Span(98 * HOUR_MS, 99 * HOUR_MS)
    assert Period(grain="1h").text(newest) == "1970-01-05T02:00:00Z"
    # A minute that is ahead of the clock does not make the next hour the newest.
    assert Period(grain="1h").span(now_ms, 101 * HOUR_MS) == Span(100 * HOUR_MS, 101 * HOUR_MS)
    assert Period(grain="1d", at_ms=30 * HOUR_MS).span(now_ms, 0) == Span(
        24 * HOUR_MS, 48 * HOUR_MS
    )


def test_rows_are_ranked_by_count_and_then_by_name_with_the_wider_bound_as_error() -> None:
    rows = [Row("t:b", 5, 5, 5), Row("t:c", 9, 7, 10), Row("t:a", 5, 5, 5), Row("t:Z", 5, 5, 8)]
    assert ranked(rows) == [
        RankedCounter(1, "t:c", 9, 2),
        RankedCounter(2, "t:Z", 5, 3),
        RankedCounter(3, "t:a", 5, 0),
        RankedCounter(4, "t:b", 5, 0),
    ]


def flushed(shard: int, at_ms: int) -> FlushedShard:
    return FlushedShard(shard, 1, at_ms, 1, at_ms, at_ms)


def test_an_answer_is_as_old_as_its_oldest_shard_and_complete_if_all_were_heard_of() -> None:
    two = [flushed(0, NOW_MS - 100), flushed(1, NOW_MS - 700)]
    assert as_of(two, NOW_MS) == AsOf(NOW_MS - 700, 700, complete=True)
    assert not as_of(two, NOW_MS + 30_000).complete
    assert not as_of([flushed(0, NOW_MS), flushed(2, NOW_MS)], NOW_MS).complete
    assert as_of([], NOW_MS) == AsOf(None, None, complete=False)


def test_shards_that_the_first_rules_knew_of_are_missed_if_they_were_never_flushed() -> None:
    two = [flushed(0, NOW_MS), flushed(1, NOW_MS)]
    assert as_of(two, NOW_MS, CountingRules(id_partitions=2)).complete
    assert as_of(two, NOW_MS, CountingRules()).complete
    last_never_started = as_of(two, NOW_MS, CountingRules(id_partitions=3))
    assert last_never_started == AsOf(NOW_MS, 0, complete=False)
    assert [*expected_shards([], CountingRules(id_partitions=2), 0)] == [0, 1]


def test_shards_that_are_noted_are_missed_if_they_were_never_flushed() -> None:
    two, rules = [flushed(0, NOW_MS), flushed(1, NOW_MS)], CountingRules(id_partitions=2)
    assert as_of(two, NOW_MS, rules, 2).complete
    assert as_of(two, NOW_MS, rules, 3) == AsOf(NOW_MS, 0, complete=False)
    assert [*expected_shards(two, rules, 4)] == [0, 1, 2, 3]
    # Fewer take nothing away: they are noted by who looked before.
    assert [*expected_shards(two, rules, 1)] == [0, 1]
    assert [*expected_shards(two, None, 0)] == [0, 1]


def test_errors_have_a_column_only_where_there_are_any() -> None:
    exact = TopAnswer(RANKING, [RankedCounter(1, "t:a", 1000, 0)])
    assert [row.figures for row in top_frame(exact).rows] == [("1,000",)]
    estimated = TopAnswer(
        RANKING, [RankedCounter(1, "t:a", 1000, 7), RankedCounter(2, "t:b", 5, 0)]
    )
    assert [row.figures for row in top_frame(estimated).rows] == [("1,000", "±7"), ("5", "±0")]


def test_the_documents_have_what_other_programs_read() -> None:
    document = TopAnswer(RANKING, [RankedCounter(1, "t:a", 1000, 0)]).document()
    assert document == {
        "family": "t",
        "region": "*",
        "window": "last 1h",
        "since": "a",
        "until": None,
        "top": [{"rank": 1, "counter": "t:a", "count": 1000, "error": 0}],
        "as_of": "2026-09-21T14:20:00.000Z",
        "staleness_ms": 5,
        "complete": True,
    }
    capped = Ranking("t", "", "last 1h", "a", None, KNOWN, "t:", ["so it is"])
    document = TopAnswer(capped, []).document()
    assert (document["capped"], document["remarks"]) == (True, ["so it is"])
    assert "region unknown" in top_frame(TopAnswer(capped, [])).title


def test_a_rank_is_told_in_words_with_its_neighbours() -> None:
    answer = RankAnswer(
        RANKING,
        "t:\x1bb",
        2,
        3,
        1500,
        0,
        RankedCounter(1, "t:a", 2000, 0),
        RankedCounter(3, "t:c", 1, 0),
    )
    assert list(rank_lines(answer)) == [
        "t:\\x1bb  rank 2 of 3, count 1,500  (t, all regions, last 1h)",
        "  above  1  t:a  2,000",
        "  below  3  t:c  1",
    ]
    none = RankAnswer(RANKING, "t:x", None, 3, 0, 0, None, None)
    assert list(rank_lines(none)) == ["t:x  no rank among 3, count 0  (t, all regions, last 1h)"]
