"""A leader's trends from cells to the topic and to `tally trending`: told is what is shown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from pipeline.rules import CountingRules, FamilyRules, TrendRules
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import MINUTE_S
from tests.integration.trends.leader import NEXT_S, REGIONS, USUAL, W_S, Leader, Trending, leader_on


@pytest.fixture
def leader(door: ClickHouse, tmp_path: Path) -> Iterator[Leader]:
    with leader_on(door, tmp_path) as made:
        yield made


@pytest.fixture
def trending(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Trending:
    return Trending(leader, monkeypatch, capsys)


def values(message: Message) -> dict[str, Any]:
    value = message.value()
    assert isinstance(value, bytes)
    found: dict[str, Any] = json.loads(value)
    return found


def test_who_enters_is_told_on_the_topic_by_id_and_shown_by_the_command(
    leader: Leader, trending: Trending
) -> None:
    assert leader.score().transitions == 0
    assert [row["kind"] for row in trending.json("tag", "-k", "3")["trending"]] == ["top"] * 3
    leader.burst()
    assert (leader.score().windows, leader.score().windows) == (1, 0)

    messages = leader.told(3)
    events = [values(message) for message in messages]
    assert [message.key() for message in messages] == [one["id"].encode() for one in events]
    assert len({one["id"] for one in events}) == 3
    assert {one["region"] for one in events} == {"*", *REGIONS}
    for event in events:
        assert (event["transition"], event["counter"]) == ("enter", "tag:burst")
        assert event["window_ms"] == event["entered_ms"] == NEXT_S * 1000
        found = trending.json("tag", "--region", event["region"])
        first = found["trending"][0]
        assert (found["family"], found["region"]) == ("tag", event["region"])
        assert (first["rank"], first["counter"]) == (1, "tag:burst")
        for name in ("kind", "observed", "expected", "score"):
            assert first[name] == event[name]

    # Nobody knew it, so 0 was to be expected of it; the score is as docs/trends.md has it.
    [everywhere] = [one for one in events if one["region"] == "*"]
    assert (everywhere["kind"], everywhere["observed"], everywhere["expected"]) == ("new", 600, 0)
    assert everywhere["score"] == pytest.approx(2 * (600**0.5 - 1) / 1.04**0.5)


def test_trends_switched_off_let_all_leave_and_the_command_says_why_it_shows_none(
    leader: Leader, trending: Trending
) -> None:
    leader.burst()
    leader.score()
    leader.count({NEXT_S + MINUTE_S: USUAL})
    leader.over(NEXT_S + MINUTE_S)
    off = CountingRules(4, families={"tag": FamilyRules(trends=TrendRules(enabled=False))})
    leader.apply(off)
    leader.score(off)
    left = [values(message) for message in leader.told(6)[3:]]
    assert [(one["transition"], one["counter"], one["score"]) for one in left] == [
        ("leave", "tag:burst", None)
    ] * 3
    now = trending.json("tag")
    assert (now["window"], now["trending"]) == ("2026-03-10T12:02:00Z", [])
    [said] = now["remarks"]
    assert said.startswith("trends of tag are switched off; set trends.enabled in tally.toml")
    then = trending.json("tag", "--at", "2026-03-10T12:01:59")
    assert (then["window"], then["complete"]) == ("2026-03-10T12:01:00Z", True)
    assert then["trending"][0]["counter"] == "tag:burst"
    assert "remarks" not in then
    leader.apply(CountingRules(5, families={"tag": FamilyRules()}))
    [said] = trending.json("tag")["remarks"]
    assert said.startswith("nothing trends: no counter of tag had enough")


def test_before_a_minute_is_scored_and_when_many_are_not_it_is_remarked(
    leader: Leader, trending: Trending
) -> None:
    for arguments in (["tag"], ["tag", "--now"], ["tag", "--at", "2026-03-10"]):
        found = trending.json(*arguments)
        assert (found["window"], found["as_of"], found["staleness_ms"]) == (None, None, None)
        assert (found["trending"], found["complete"]) == ([], False)
        [said] = found["remarks"]
        assert said.startswith("no minute was scored yet: that begins about three minutes after")
    assert "no minute was scored yet" in trending.run("tag")[0]

    leader.score()
    nobody = ["nothing trends; those listed lead by count alone"]
    leader.over(W_S + 9 * MINUTE_S)
    assert trending.json("tag")["remarks"] == nobody
    leader.over(W_S + 10 * MINUTE_S)
    behind = ["what was counted since is not scored yet; see tally status"]
    assert trending.json("tag")["remarks"] == nobody + behind
