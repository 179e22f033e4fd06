"""`tally trending` on minutes that a leader scored: answers, choices, a live table."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.reads.reads import Reads
from pipeline.reads.status import observe_clickhouse
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import MINUTE_S
from tests.integration.trends.leader import NEXT_S, USUAL, Leader, Trending, leader_on
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY

OLD_S = NEXT_S - 5 * MINUTE_S
OPEN_S = NEXT_S + 2 * MINUTE_S


@pytest.fixture(scope="module")
def leader(door: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leader]:
    """A burst in the last minute that is over, and another in the one that is not. Only read it.

    Minutes between an old one and the last were not scored, as after a long outage.
    """
    with leader_on(door, tmp_path_factory.mktemp("log")) as made:
        made.burst()
        made.count({NEXT_S + MINUTE_S: USUAL, OPEN_S: {"later": 300}})
        made.score()
        row = [made.site.build, datetime.fromtimestamp(OLD_S, UTC), datetime.now(UTC)]
        made.site.client.insert("tally.trend_windows", [row])
        yield made


@pytest.fixture
def trending(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Trending:
    return Trending(leader, monkeypatch, capsys)


def test_the_answer_says_by_which_minute_it_is_and_how_old(
    leader: Leader, trending: Trending
) -> None:
    leader.over(NEXT_S)  # Flushed just now, which is what makes it complete.
    found = trending.json("tag", "-k", "2")
    assert (found["window"], found["provisional"]) == ("2026-03-10T12:01:00Z", False)
    assert found["as_of"] == "2026-03-10T12:02:00.000Z"
    age_ms = datetime.now(UTC).timestamp() * 1000 - (NEXT_S + MINUTE_S) * 1000
    assert found["staleness_ms"] == pytest.approx(age_ms, abs=60_000)
    assert found["complete"] is True
    assert "remarks" not in found
    assert [(row["rank"], row["entered"]) for row in found["trending"]] == [
        (1, "2026-03-10T12:01:00Z"),
        (2, None),
    ]
    title, first, second, *_ = trending.run("tag", "-k", "2")[0].splitlines()
    assert title.startswith("tag trending, all regions, minute 2026-03-10T12:01:00Z, ")
    assert " ".join(first.split()) == (
        "1 tag:burst new 600 instead of 0.0 in an hour score 46.1 since 12:01Z"
    )
    assert second.startswith("2    tag:usual-0")


def test_kinds_and_regions_choose_and_leave_the_ranks_alone(trending: Trending) -> None:
    both = trending.json("tag", "--kind", "top", "--kind", "new", "-k", "2")["trending"]
    assert [row["kind"] for row in both] == ["new", "top"]
    [leads] = trending.json("tag", "--kind", "top", "-k", "1")["trending"]
    assert leads["rank"] == 2
    assert trending.run("tag", "--kind", "top")[0].splitlines()[1].startswith(" 2    tag:usual-0")
    none = trending.json("tag", "--kind", "rising")
    assert (none["trending"], none["remarks"]) == ([], ["nothing is rising in that minute"])
    nowhere = trending.json("tag", "--region", "asia")
    assert nowhere["trending"] == []
    assert nowhere["remarks"][0].startswith("nothing trends in region 'asia': no counter of tag")


def test_the_minute_that_is_not_over_is_shown_as_provisional(trending: Trending) -> None:
    found = trending.json("tag", "--now")
    assert (found["window"], found["provisional"]) == ("2026-03-10T12:03:00Z", True)
    assert "tag:later" in [row["counter"] for row in found["trending"]]
    assert found["staleness_ms"] < 600_000, "it is as of when it was scored, not of its minute"
    out, _ = trending.run("tag", "--now", "--region", "us")
    assert ", provisional, " in out.splitlines()[0]
    assert "tag:later" in out
    assert "tag:later" not in trending.run("tag")[0]


@pytest.mark.parametrize(
    "time", ["2026-03-10T12:00:59", "2026-03-10T12:02", "2199-01-01", "1950-01-01"]
)
def test_a_minute_that_was_not_scored_is_no_answer(time: str, trending: Trending) -> None:
    found = trending.json("tag", "--at", time)
    assert (found["trending"], found["as_of"], found["complete"]) == ([], None, False)
    [said] = found["remarks"]
    assert said.endswith(
        "was not scored; the first that was is 2026-03-10T11:56:00Z, the last is "
        "2026-03-10T12:01:00Z"
    )


def test_a_family_nobody_counted_is_one_line_that_names_those_there_are(
    trending: Trending,
) -> None:
    for more in ([], ["--json"], ["--watch"]):
        out, err = trending.run("tga", *more, code=1)
        assert out == ""
        assert err == "tally: nothing of a family 'tga' was ever counted; there are tag\n"


def test_status_reads_up_to_when_trends_are_scored(leader: Leader) -> None:
    reads = Reads(leader.site.client, SystemClock())
    found = observe_clickhouse(reads, leader.settings, {0: 1, 1: 1})
    assert found.trends_until_ms == (NEXT_S + MINUTE_S) * 1000
    assert found.trends_interval_ms == 10_000


def test_watching_shows_it_again_until_ctrl_c(leader: Leader, tmp_path: Path) -> None:
    command = [*TALLY, "trending", "tag", "--watch", "0.1"]
    with Process(command, output_path=tmp_path / "watch.txt", env=leader.env) as watching:
        wait_until(lambda: watching.output().count("tag:burst") > 1, "two tables", timeout_s=60)
        watching.send(signal.SIGINT)
        assert watching.wait() == 0
    assert "\n\ntag trending, all regions, minute" in watching.output()
    assert "Traceback" not in watching.output()
