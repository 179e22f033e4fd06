"""The value of a rules record, as the log has it."""

from __future__ import annotations

from pipeline.errors import BadInputError
from pipeline.rules import CountingRules, FamilyRules, StrictRules, parse_rules

PROMISE = "rules that are written and read again as the same, or BadInputError"


def seeds() -> list[bytes]:
    families = {"a": FamilyRules(sketched=True), "é": FamilyRules(strict=StrictRules(limit=5))}
    return [
        CountingRules().bytes,
        CountingRules(7, FamilyRules(lateness_ms=1), families, 10, 16).bytes,
        b'{"version":1,"default":{"once_per_member":true,"once_per_error":0.0000001}}',
        b'{"version":1,"default":{"distinct_precision":3,"distinct_grains":["1m"]}}',
        b'{"version":1,"default":{"trends":{"min_score":1e308,"max_per_member":1e400}}}',
        b'{"version":99999999999999999999,"families":{"\\ud800":{}}}',
        b"[" * 3000,
    ]


def check(data: bytes) -> None:
    try:
        rules = parse_rules(data)
    except BadInputError as error:
        assert str(error)
        return
    again = parse_rules(rules.bytes)
    assert again == rules
    assert again.bytes == rules.bytes
    assert not rules.supersedes(again)
