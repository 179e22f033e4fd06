"""Every way through the tree ends in settings that are valid and do what was asked for."""

from collections.abc import Iterator, Mapping

import pytest

from pipeline.advise.advice import advise
from pipeline.advise.questions import QUESTIONS, asked, next_question
from schemas.families import parse_families
from schemas.rules import Family


def ways(answers: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """All complete answers."""
    answers = dict(answers or {})
    question = next_question(answers)
    if question is None:
        yield answers
        return
    for choice in question.choices:
        yield from ways({**answers, question.name: choice})


WAYS = list(ways())


def settled(answers: Mapping[str, str], family: str = "likes") -> Family:
    return parse_families(advise(family, answers).toml).families[family]


def test_the_tree_has_every_kind_of_counter_and_every_question() -> None:
    assert {settled(way).kind for way in WAYS} == {"exact", "sketched", "strict"}
    assert {settled(way).once_per for way in WAYS} == {"id", "member"}
    assert {name for way in WAYS for name in way} == {question.name for question in QUESTIONS}
    for question in QUESTIONS:
        reached = {way[question.name] for way in WAYS if question.name in way}
        assert reached == set(question.choices)


def test_every_way_ends_in_settings_that_tally_takes_and_that_do_what_was_asked() -> None:
    for way in WAYS:
        family = settled(way)
        assert (family.kind == "strict") == (way["need"] == "never-over"), way
        assert (family.once_per == "member") == (way["need"] == "who-is-in"), way
        assert (family.kind == "sketched") == (way.get("precision") == "estimate"), way
        assert (family.once_per_error > 0) == (way.get("members") == "filter"), way
        if way.get("limit") in {"per-period", "any-period"}:
            assert family.strict.limit is not None, way
            assert family.strict.per_ms is not None, way
            sliding = way["limit"] == "any-period"
            assert family.strict.window == ("sliding" if sliding else "fixed"), way
        if way["need"] == "never-over":
            continue
        assert family.trends.enabled == (way["trends"] == "yes"), way
        assert family.regions == (way["regions"] == "yes"), way
        wants_uniques = way.get("uniques", "no") != "no"
        assert family.distinct.enabled == wants_uniques, way
        assert ("1m" in family.distinct.grains) == (way.get("uniques") == "minutes"), way
        assert (family.shards == "adaptive") == (way.get("heat") != "all"), way


def test_every_way_has_a_strategy_reasons_costs_and_steps() -> None:
    for way in WAYS:
        advice = advise("likes", way)
        assert advice.strategy
        assert advice.reasons
        assert advice.costs
        assert advice.steps


def test_who_is_taken_back_is_never_in_a_filter() -> None:
    """A filter cannot let go of anybody, so it must not be offered."""
    for way in WAYS:
        if way.get("taken-back") == "yes":
            assert "members" not in way
            assert settled(way).once_per_error == 0


@pytest.mark.parametrize(
    ("rate", "shards"), [(1, 2), (10_001, 4), (40_000, 8), (80_000, 16), (10**9, 4096)]
)
def test_counters_that_are_all_hot_get_shards_by_their_rate(rate: int, shards: int) -> None:
    way = next(way for way in WAYS if way.get("heat") == "all")
    found = advise("likes", way, rate)
    assert parse_families(found.toml).families["likes"].shards == shards


@pytest.mark.parametrize("family", ["likes", "page views", 'a"b', "ä", "😀", "x\x7f", "a.b", "\\"])
def test_any_name_of_a_family_is_written_as_toml_reads_it(family: str) -> None:
    assert settled(WAYS[0], family) == settled(WAYS[0])


def test_an_unanswered_question_ends_the_list() -> None:
    assert [question.name for question in asked({})] == ["need"]
    with pytest.raises(KeyError):
        advise("likes", {"need": "how-often"})
