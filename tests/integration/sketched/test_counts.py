"""`tally count` and `tally explain` of sketched and flooded families: cells and estimates added."""

import json
from datetime import timedelta
from typing import Any

import pytest

from pipeline.cli import run
from pipeline.reads import counts, spans
from pipeline.reads.counts import CountAnswer, Mode, Question
from pipeline.reads.explain import explain
from pipeline.rules import FamilyRules
from schemas.families import parse_families
from tests.integration.rollup.site import HOUR_S, MINUTE_S, Cell, Site, seconds
from tests.integration.sketched.site import (
    NOW_S,
    SHARDS,
    TODAY,
    Increment,
    Sketched,
    apply_rules,
    flushed,
    of_sketch,
    reads_of,
    scattered,
)

ERROR = 0.05


def ask(site: Site, question: Question, mode: Mode = "exact") -> CountAnswer:
    return counts.count(reads_of(site), question, mode, 60_000)


def with_cells(site: Site, counter: str, p: int, n: int = 0) -> None:
    """A cell of its own, from before the family was flooded."""
    window_s = NOW_S - NOW_S % MINUTE_S - 3 * HOUR_S
    site.flush([(Cell(counter, "eu", window_s, window_s, 0), p, n)])


def test_a_count_is_cells_and_estimate_with_bounds(site: Site) -> None:
    rows = scattered(11, "views", 0.5, 300)
    Sketched(site, error=ERROR).count("views", rows)
    with_cells(site, "views:1", 1000, 4)
    flushed(site)
    [bounds] = of_sketch(rows, ERROR, ["views:1"])
    answer = ask(site, Question("views:1", "1d"))
    assert (answer.total, answer.net) == (996 + bounds.value, 996 + bounds.value)
    assert (answer.low, answer.high) == (996 + bounds.low, 996 + bounds.high)
    assert bounds.low < bounds.high
    document = answer.document()
    assert document["error"] == bounds.high - bounds.low
    assert "capped" not in document, "what spilled is in the estimate"
    [window] = [row for row in answer.windows if row.window.startswith("2026-03-20")]
    today = [one for one in rows if one.at_s >= seconds(TODAY)]
    [bounds] = of_sketch(today, ERROR, ["views:1"])
    assert (window.count, window.low, window.high) == (
        996 + bounds.value,
        996 + bounds.low,
        996 + bounds.high,
    )
    assert document["windows"][-1]["error"] == bounds.high - bounds.low
    eu = ask(site, Question("views:1", region="eu"))
    [bounds] = of_sketch([one for one in rows if one.region == "eu"], ERROR, ["views:1"])
    assert (eu.total, eu.low, eu.high) == (996 + bounds.value, 996 + bounds.low, 996 + bounds.high)


def test_exact_families_are_answered_as_ever(site: Site) -> None:
    Sketched(site, error=ERROR).count("views", scattered(12, "views", 0.5, 50))
    with_cells(site, "likes:1", 7)
    flushed(site)
    document = ask(site, Question("likes:1", "1d")).document()
    assert (document["total"], set(document["windows"][0])) == (7, {"window", "count"})
    assert not {"low", "high", "error", "capped"} & set(document)
    rest = ask(site, Question("views:"))
    assert rest.low is None
    assert rest.net > 50, "the counter of the rest is exact"


def test_removals_beyond_additions_show_zero_and_a_net_below_it(site: Site) -> None:
    Sketched(site, error=ERROR).count("views", [Increment("views:1", NOW_S - 90, -8)])
    flushed(site)
    answer = ask(site, Question("views:1"))
    assert (answer.total, answer.net, answer.low, answer.high) == (0, -8, 0, 0)


def test_cached_estimates_are_as_old_as_the_last_rollup(site: Site) -> None:
    sketched = Sketched(site, error=ERROR)
    rows = scattered(13, "views", 2, 100)
    sketched.count("views", rows)
    flushed(site)
    site.roll_up(SHARDS)
    sketched.count("views", [Increment("views:1", NOW_S, 90)])
    assert (
        ask(site, Question("views:1"), "cached").net == of_sketch(rows, ERROR, ["views:1"])[0].value
    )
    grown = of_sketch(sketched.increments, ERROR, ["views:1"])[0].value
    assert ask(site, Question("views:1")).net == grown


def test_windows_that_are_gone_are_told_of_sketches_too(site: Site) -> None:
    sketched = Sketched(site, error=ERROR)
    at_s = seconds(TODAY - timedelta(days=4), 10, 40)
    sketched.count("views", [Increment("views:1", at_s, 5), Increment("views:1", NOW_S - 60, 2)])
    flushed(site)
    families = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "30d" }')
    for _ in range(2):
        site.roll_up(SHARDS, families)
    span = spans.Span((at_s - 600) * 1000)
    [said] = ask(site, Question("views:1", None, span)).remarks
    assert said.startswith("minutes of the hour from 2026-03-16T10:00:00Z are gone")


@pytest.mark.parametrize("by_rule", [True, False])
def test_an_explanation_says_why_it_is_an_estimate(site: Site, by_rule: bool) -> None:
    apply_rules(site, 9, {"views": FamilyRules(sketched=by_rule)}, ago_s=3600)
    Sketched(site, error=ERROR).count("views", [Increment("views:1", NOW_S - 60, 30)])
    with_cells(site, "views:1", 5, 1)
    flushed(site)
    found = explain(reads_of(site), "views:1", None)
    assert (found.total, found.p, found.n) == (34, 5, 1)
    document = found.document()
    assert document["sketched"] == {
        "value": 30,
        "low": 30 - 1,
        "high": 30,
        "families": ["views"],
        "by_rule": by_rule,
    }
    assert explain(reads_of(site), "views:", None).sketched is None
    assert explain(reads_of(site), "likes:1", None).document()["sketched"] is None


def test_the_commands_tell_the_bounds(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Increment(f"views:{key}", NOW_S - 60, 100) for key in range(50)]
    Sketched(site, error=ERROR).count("views", rows)
    flushed(site)
    monkeypatch.setenv("TALLY_CLICKHOUSE", site.client.url)  # type: ignore[attr-defined]

    def said(*arguments: str) -> str:
        assert run([*arguments]) == 0
        return capsys.readouterr().out

    [bounds] = of_sketch(rows, ERROR, ["views:7"])
    text = f"views:7  {bounds.value:,} (between {bounds.low:,} and {bounds.high:,}: the family is"
    assert said("count", "views:7").startswith(text)
    assert f"between {bounds.low:,} and {bounds.high:,}" in said("count", "views:7", "--by", "1h")
    document: dict[str, Any] = json.loads(said("count", "views:7", "--json"))
    assert [document[name] for name in ("total", "low", "high", "error")] == [
        bounds.value,
        bounds.low,
        bounds.high,
        bounds.high - bounds.low,
    ]
    assert f"sketched      {bounds.value:,} of it are estimated" in said("explain", "views:7")
