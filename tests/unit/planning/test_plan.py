"""The plan as producers use it, and the records it is made of."""

import json

import pytest

from pipeline.errors import BadInputError
from pipeline.planning.plan import Hint, Plan, PlanRecords, Split, fixed_shards
from pipeline.rules import CountingRules, FamilyRules

NOW = 1_700_000_000_000
RULES = CountingRules(7, families={"fixed": FamilyRules(shards=4)}, id_partitions=3)


def hint(n: int) -> Hint:
    return Hint(n, NOW + 1)


@pytest.mark.parametrize(
    ("counter", "expected"),
    [
        ("likes:cold", 1),
        ("likes:split", 4),
        ("likes:hinted", 6),
        ("likes:both", 8),
        ("likes:split-more", 4),
        ("likes:huge", 16),
        ("fixed:any", 4),
        ("fixed:planned", 4),
        ("fixed:hinted", 8),
        ("fixed:hinted-less", 4),
    ],
)
def test_a_producer_uses_the_most_that_is_planned_hinted_or_fixed(
    counter: str, expected: int
) -> None:
    shards = {"likes:split": 4, "likes:both": 2, "likes:split-more": 4, "fixed:planned": 16}
    hints = {
        "likes:hinted": hint(6),
        "likes:both": hint(8),
        "likes:split-more": hint(2),
        "likes:huge": hint(4096),
        "fixed:hinted": hint(8),
        "fixed:hinted-less": hint(2),
    }
    assert Plan(16, 3, RULES, shards, hints).shards_of(counter) == expected


def test_there_are_never_more_shards_than_partitions() -> None:
    plan = Plan(3, 3, RULES, {"likes:split": 16}, {"likes:hinted": hint(9)})
    counters = ("likes:split", "likes:hinted", "fixed:any", "likes:cold")
    assert [plan.shards_of(counter) for counter in counters] == [3, 3, 3, 1]


def test_without_rules_families_are_adaptive() -> None:
    assert fixed_shards(None, "likes:a") == 0
    assert Plan(8, 8, None, {"likes:a": 4}).shards_of("likes:a") == 4


def test_records_amount_to_the_last_of_each_key() -> None:
    records = PlanRecords()
    records.take(b"shards:likes:a", b'{"n":4,"rate":90000.5,"why":"rate","at_ms":5}')
    records.take(b"shards:likes:a", b'{"n":8}')
    records.take(b"shards:likes:b", b'{"n":2}')
    records.take(b"shards:likes:b", None)
    records.take(b"shards:likes:never", None)
    records.take(b"hint:likes:a", b'{"n":16,"until_ms":9,"by":"expect"}')
    records.take(b"rules", RULES.bytes)
    assert records.splits == {"likes:a": Split(8)}
    assert records.hints == {"likes:a": Hint(16, 9, "expect")}
    assert records.rules == RULES


def test_of_rules_the_greater_version_holds_in_whichever_order() -> None:
    older = CountingRules(3)
    for order in ([RULES, older], [older, RULES]):
        records = PlanRecords()
        for rules in order:
            records.take(b"rules", rules.bytes)
        records.take(b"rules", None)
        assert records.rules == RULES


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"shards:likes:a", b"junk"),
        (b"shards:likes:a", b'{"n":0}'),
        (b"shards:likes:a", b'{"n":5000}'),
        (b"shards:likes:a", b'{"n":"2"}'),
        (b"shards:\xff", b'{"n":3}'),
        (b"hint:likes:b", b'{"n":3}'),
        (b"hint:likes:b", b'{"n":3,"until_ms":-1}'),
        (b"something:else", b'{"n":3}'),
        (b"", b""),
        (None, b'{"n":3}'),
    ],
)
def test_a_record_that_nobody_understands_changes_nothing(key: bytes | None, value: bytes) -> None:
    records = PlanRecords(splits={"likes:a": Split(2)}, hints={"likes:b": Hint(2, NOW)})
    records.take(key, value)
    assert records == PlanRecords(splits={"likes:a": Split(2)}, hints={"likes:b": Hint(2, NOW)})


def test_rules_that_are_none_are_refused_and_change_nothing() -> None:
    records = PlanRecords(rules=RULES)
    with pytest.raises(BadInputError, match="not counting rules"):
        records.take(b"rules", json.dumps({"version": -1}).encode())
    assert records.rules == RULES


def test_a_hint_has_no_effect_from_its_last_moment_on() -> None:
    records = PlanRecords()
    records.take(b"hint:likes:a", json.dumps({"n": 4, "until_ms": NOW}).encode())
    assert records.plan(8, 8, NOW - 1).shards_of("likes:a") == 4
    assert records.plan(8, 8, NOW).shards_of("likes:a") == 1


def test_a_plan_does_not_change_with_the_records_it_was_made_of() -> None:
    records = PlanRecords(splits={"likes:a": Split(2)})
    plan = records.plan(8, 3, NOW)
    records.take(b"shards:likes:a", b'{"n":8}')
    records.take(b"hint:likes:a", json.dumps({"n": 4, "until_ms": NOW + 9}).encode())
    assert plan == Plan(8, 3, None, {"likes:a": 2}, {})
