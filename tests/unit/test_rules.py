"""Rules in the log: read back as written, and bad ones refused whatever they hold."""

import json

import pytest

from pipeline.errors import BadInputError
from pipeline.rules import CountingRules, FamilyRules, parse_rules


def test_rules_read_back_as_they_were_written() -> None:
    rules = CountingRules(7, FamilyRules(1_000), {"b": FamilyRules(regions=False)}, 5)
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
