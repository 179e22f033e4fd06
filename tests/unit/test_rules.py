"""Rules in the log: read back as written, and bad ones refused whatever they hold."""

import json

import pytest

from pipeline.errors import BadInputError
from pipeline.rules import (
    VERSION_MAX,
    CountingRules,
    FamilyRules,
    counting_rules,
    parse_rules,
)
from schemas.families import Families, parse_families


def test_rules_read_back_as_they_were_written() -> None:
    rules = CountingRules(7, FamilyRules(1_000), {"b": FamilyRules(regions=False)}, 5, 8)
    assert parse_rules(rules.bytes) == rules


def test_equal_rules_have_equal_bytes_however_they_were_made() -> None:
    one = CountingRules(1, families={"a": FamilyRules(1), "b": FamilyRules(2)})
    two = CountingRules(1, families={"b": FamilyRules(2), "a": FamilyRules(1)})
    assert one.bytes == two.bytes


def test_fields_of_a_later_version_are_ignored() -> None:
    assert parse_rules(b'{"version": 3, "news": [1]}') == CountingRules(3)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"version": -1}',
        b'{"version": 1, "ids_limit": -1}',
        b'{"version": 1, "ids_limit": 0}',
        json.dumps({"version": 1, "default": {"lateness_ms": 2**70}}).encode(),
        json.dumps({"version": 1, "default": {"lateness_ms": -(2**63)}}).encode(),
        b'{"version": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_set_of_rules_is_refused(value: bytes) -> None:
    with pytest.raises(BadInputError, match="not counting rules"):
        parse_rules(value)


@pytest.mark.parametrize("version", [VERSION_MAX + 1, 2**53, 2**63, 2**64, 2**200])
def test_a_version_that_applying_could_never_go_above_is_refused(version: int) -> None:
    with pytest.raises(BadInputError, match=r"not counting rules: .*version"):
        parse_rules(b'{"version": %d}' % version)
    assert parse_rules(b'{"version": %d}' % VERSION_MAX).version == VERSION_MAX


def test_the_greater_version_supersedes_and_of_equal_versions_the_greater_bytes() -> None:
    one, two = CountingRules(1), CountingRules(2)
    assert two.supersedes(one)
    assert not one.supersedes(two)
    twin = CountingRules(1, FamilyRules(lateness_ms=5))
    assert one.supersedes(twin) != twin.supersedes(one)
    assert not one.supersedes(CountingRules(1))


def test_rules_that_count_alike_may_be_of_other_versions_and_for_more_partitions() -> None:
    assert CountingRules(1, id_partitions=4).counts_as(CountingRules(2, id_partitions=8))
    assert not CountingRules(1).counts_as(CountingRules(1, ids_limit=5))


def test_without_a_file_the_rules_are_those_that_hold_before_any_record() -> None:
    assert counting_rules(Families()) == CountingRules()


def test_the_rules_that_hold_before_any_record_stay_as_they_are() -> None:
    # Logs are counted again years later, and then by what held before their first rules.
    assert json.loads(CountingRules().bytes) == {
        "version": 0,
        "default": {
            "lateness_ms": 86_400_000,
            "regions": True,
            "ids_horizon_ms": 86_400_000,
            "cells_max": 1_000_000,
            "distinct_precision": 12,
            "distinct_grains": ["1h", "1d"],
            "sketched": False,
            "sketch_error": 0.002,
            "sketch_keys": 1_000,
            "trends": {
                "enabled": True,
                "k": 100,
                "min_count": 10,
                "min_score": 7.0,
                "min_uniques": 10,
                "max_per_member": 5.0,
                "min_regions": 2,
            },
            "shards": 0,
            "once_per_member": False,
            "once_per_error": 0.0,
            "strict": None,
        },
        "families": {},
        "ids_limit": 1_000_000,
        "id_partitions": 0,
    }


def test_a_file_says_each_rule_that_decides_counting() -> None:
    families = parse_families(
        "ids_per_partition = 7\n[default]\nlateness = '2h'\n"
        "[families.a]\nregions = false\nids.horizon = '5m'\ncells_max = 3"
    )
    assert counting_rules(families, 9, 4) == CountingRules(
        9,
        FamilyRules(lateness_ms=7_200_000),
        {"a": FamilyRules(7_200_000, regions=False, ids_horizon_ms=300_000, cells_max=3)},
        ids_limit=7,
        id_partitions=4,
    )


def test_a_named_family_stays_named_though_its_rules_are_the_defaults() -> None:
    rules = counting_rules(parse_families("[families.a]"))
    assert rules.group_of("a:x") == "a"
    assert not rules.counts_as(CountingRules())


def test_what_decides_neither_counting_nor_partitions_is_not_in_the_rules() -> None:
    text = '[default]\nread_mode = "live"\nretention."1m" = "1h"'
    assert counting_rules(parse_families(text)) == CountingRules()


def test_how_many_shards_a_family_has_is_in_the_rules_for_producers() -> None:
    text = '[default]\nshards = 8\n[families.a]\nshards = "adaptive"\n[families.b]\nshards = 1'
    rules = counting_rules(parse_families(text))
    assert [rules.of(counter).shards for counter in ("x:1", "a:1", "b:1")] == [8, 0, 1]
    assert not rules.counts_as(counting_rules(parse_families(text.replace("8", "4"))))


def test_rules_that_say_nothing_of_shards_are_adaptive() -> None:
    assert parse_rules(b'{"version":1,"families":{"a":{}}}').of("a:1").shards == 0
    for bad in (b"-1", b"4097", b'"adaptive"'):
        with pytest.raises(BadInputError):
            parse_rules(b'{"version":1,"default":{"shards":' + bad + b"}}")
