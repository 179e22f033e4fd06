"""Distinct members as `tally unique` tells them, beside sets of the same members."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from clickhouse_connect.driver import Client

from pipeline.cli import run
from pipeline.errors import OperatorError
from pipeline.reads.spans import Span, window_text
from pipeline.rules import CountingRules, FamilyRules
from schemas.rules import Grain
from tests.integration.rollup.site import Cell, Site, seconds
from tests.integration.uniques.members import (
    ABOUT,
    HOME,
    NOW_S,
    TODAY,
    Members,
    applied,
    ask,
    expected_windows,
    flushed,
    number,
    people,
    sketched,
)


def test_counters_windows_and_regions_are_united(members: Members) -> None:
    client, truth = members.client, members.truth
    assert number(ask(client, HOME)) == sketched(truth(HOME))
    both = ask(client, HOME, ABOUT, HOME)
    assert number(both) == sketched(truth(HOME, ABOUT))
    assert both.counters == [HOME, ABOUT]
    assert both.uniques < ask(client, HOME).uniques + ask(client, ABOUT).uniques
    assert number(ask(client, HOME, region="us")) == sketched(truth(HOME, region="us"))
    assert (both.begins, both.ends) == ("2026-03-19T00:00:00Z", "2026-03-21T00:00:00Z")
    assert both.windows is None
    assert both.remarks == []


def test_windows_are_listed_where_asked_for(members: Members) -> None:
    for grain in ("1h", "1d"):
        answer = ask(members.client, HOME, by=grain)
        expected = expected_windows(members, HOME, grain)
        assert answer.windows is not None
        assert {row.window: (row.uniques, row.low, row.high) for row in answer.windows} == {
            window_text(at_s * 1000): told for at_s, told in expected.items()
        }
        assert [row.window for row in answer.windows] == sorted(
            row.window for row in answer.windows
        )
        assert number(answer) == sketched(members.truth(HOME))
        assert answer.remarks == []
    answer = ask(members.client, HOME, by="1m")
    assert answer.windows == []
    assert answer.remarks[0].startswith("minutes before 2026-03-21T00:00:00Z are not kept")


def test_a_time_that_cuts_an_hour_unites_the_whole_of_it_and_says_so(members: Members) -> None:
    since_s = NOW_S - 3600
    answer = ask(members.client, HOME, span=Span(since_s * 1000))
    assert number(answer) == sketched(members.truth(HOME, since_s=seconds(TODAY, 11)))
    assert (answer.begins, answer.ends) == ("2026-03-20T11:00:00Z", "2026-03-20T13:00:00Z")
    [said] = answer.remarks
    assert said.startswith("the hour from 2026-03-20T11:00:00Z is united as a whole")
    since_s, until_s = seconds(TODAY - timedelta(1), 7), seconds(TODAY, 9)
    answer = ask(members.client, HOME, span=Span(since_s * 1000, until_s * 1000), by="1d")
    assert number(answer) == sketched(members.truth(HOME, since_s=since_s, until_s=until_s))
    assert answer.windows is not None
    assert (
        answer.windows[0].uniques
        == sketched(members.truth(HOME, since_s=since_s, until_s=seconds(TODAY)))[0]
    )
    assert answer.remarks == []


def test_families_that_keep_other_grains_are_united_by_what_each_has(client: Client) -> None:
    kept: dict[str, tuple[Grain, ...]] = {
        "minutes:x": ("1m", "1h"),
        "hours:it's \\ {odd}": ("1h",),
        "days:x": ("1d",),
    }
    made = {counter: Members(client, grains) for counter, grains in kept.items()}
    for place, (counter, members) in enumerate(made.items()):
        for minutes in (20, 70, 100, 600):
            members.write(counter, "", NOW_S - minutes * 60, people(place * 500 + minutes, 50))
    since_s = NOW_S - 75 * 60  # 11:15:20
    begins = {"minutes:x": since_s, "hours:it's \\ {odd}": seconds(TODAY, 11), "days:x": 0}
    every: set[str] = set()
    for counter, members in made.items():
        truth = members.truth(counter, since_s=begins[counter] - begins[counter] % 60)
        answer = ask(client, counter, span=Span(since_s * 1000))
        assert number(answer) == sketched(truth), counter
        every |= truth
    answer = ask(client, *made, span=Span(since_s * 1000))
    assert number(answer) == sketched(every)
    assert (answer.begins, answer.ends) == ("2026-03-20T00:00:00Z", "2026-03-21T00:00:00Z")
    # Of all time, what keeps no days is united from hours.
    everyone = {name for counter, one in made.items() for name in one.truth(counter)}
    assert number(ask(client, *made)) == sketched(everyone)


def test_days_whose_hours_are_gone_are_in_the_number_but_not_listed(client: Client) -> None:
    members = Members(client)
    members.grains = ("1d",)
    members.write(HOME, "", seconds(TODAY - timedelta(100)), people(0, 50))
    members.grains = ("1h", "1d")
    members.write(HOME, "", NOW_S, people(40, 20))
    answer = ask(client, HOME, by="1h")
    assert number(answer) == sketched(members.truth(HOME))
    assert answer.windows is not None
    assert [row.uniques for row in answer.windows] == [20]
    assert answer.remarks[0].startswith("hours before 2025-12-11T00:00:00Z are not kept")


def test_a_counter_of_which_nothing_is_known_is_zero_with_a_remark(members: Members) -> None:
    applied(members.client, CountingRules(3))
    answer = ask(members.client, "views:nobody")
    assert number(answer) == (0, 0, 0)
    assert (answer.begins, answer.ends) == (None, None)
    assert answer.remarks == ["no members of views:nobody are known in what was asked for"]
    assert ask(members.client, "views:nobody", by="1h").windows == []
    both = ask(members.client, HOME, "views:nobody")
    assert number(both) == number(ask(members.client, HOME))
    assert both.remarks == answer.remarks


def test_a_family_whose_members_are_not_counted_is_an_error(members: Members) -> None:
    applied(members.client, CountingRules(3))
    off = {"quiet": FamilyRules(distinct_precision=0), "views": FamilyRules(distinct_precision=0)}
    applied(members.client, CountingRules(4, families=off))
    with pytest.raises(OperatorError, match=r"quiet:x: distinct members .* are not counted"):
        ask(members.client, HOME, "quiet:x")
    # What was counted before is still told.
    assert number(ask(members.client, HOME)) == sketched(members.truth(HOME))


def test_age_and_caps_are_told_as_for_counts(members: Members) -> None:
    client = members.client
    answer = ask(client, HOME)
    assert (answer.as_of, answer.staleness_ms, answer.complete) == (None, None, False)
    flushed(client)
    answer = ask(client, HOME)
    assert answer.as_of == datetime.fromtimestamp(NOW_S, UTC).isoformat().replace("+00:00", ".000Z")
    assert (answer.staleness_ms, answer.complete) == (1000, True)
    assert "capped" not in answer.document()
    slot_s = NOW_S - NOW_S % 60
    Site(client).flush([(Cell("views:", "", slot_s - 7200, slot_s, 0), 3, 0)])
    assert ask(client, HOME).document()["capped"] is True
    assert ask(client, HOME, span=Span((NOW_S - 600) * 1000)).spilled_to is None


def test_the_command_prints_one_document(
    members: Members, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TALLY_CLICKHOUSE", members.client.url)  # type: ignore[attr-defined]
    command = ["unique", HOME, ABOUT, "--since", "2026-03-19", "--by", "1d", "--region", "*"]
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = sketched(members.truth(HOME, ABOUT))
    assert found["counters"] == [HOME, ABOUT]
    assert (found["uniques"], found["low"], found["high"]) == told
    assert [row["window"] for row in found["windows"]] == [
        "2026-03-19T00:00:00Z",
        "2026-03-20T00:00:00Z",
    ]
    assert (found["from"], found["until"]) == ("2026-03-19T00:00:00Z", "2026-03-21T00:00:00Z")
    assert run(command) == 0
    assert f"together  {told[0]:,}  ({told[1]:,} to {told[2]:,})" in capsys.readouterr().out
