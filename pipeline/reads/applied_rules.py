"""The counting rules that were applied, as ClickHouse knows them; the log alone decides by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import BadInputError
from pipeline.rules import NewerRulesError, parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.reads.reads import Reads
    from pipeline.rules import CountingRules

_LATEST_FIRST = (
    "SELECT toUnixTimestamp64Milli(applied_at), document FROM tally.rules ORDER BY version DESC"
)
# In one query: it is asked in the midst of answers.
_WITH_PARTITIONS = (
    "SELECT toUnixTimestamp64Milli(applied_at), document, (SELECT argMax(partitions, seen_at) "
    "FROM tally.topic_partitions WHERE topic = 'tally.increments') "
    "FROM tally.rules ORDER BY version DESC LIMIT 1"
)


class Applied(NamedTuple):
    """The rules applied last, None as by `newest_rules`, and how many partitions are noted; 0 where
    none are, or no rules were applied."""

    rules: CountingRules | None
    partitions: int


def newest_rules(reads: Reads) -> CountingRules | None:
    """The rules applied last; None where nobody has, or a newer Tally did.

    Blocks; raises TryAgainError.
    """
    rows = reads.rows(f"{_LATEST_FIRST} LIMIT 1")
    return next((rules for _, rules in _parsed(rows)), None)


def newest_applied(reads: Reads) -> Applied:
    """The rules applied last, and how many partitions there are or will be, to miss those that were
    never flushed. Blocks; raises TryAgainError.
    """
    rows = reads.rows(_WITH_PARTITIONS)
    if not rows:
        return Applied(None, 0)
    [(applied_ms, text, partitions)] = rows
    [(_, rules)] = _parsed([(applied_ms, text)])
    return Applied(rules, int(partitions))


def rules_history(reads: Reads) -> Iterator[tuple[int, CountingRules | None]]:
    """When rules were applied, in milliseconds, and which: the latest first, read as it is taken.

    None stands for rules of a newer Tally. Blocks; raises TryAgainError.
    """
    yield from _parsed(reads.rows(_LATEST_FIRST))


def _parsed(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, CountingRules | None]]:
    for applied_ms, text in rows:
        try:
            yield int(applied_ms), parse_rules(str(text).encode())
        except (BadInputError, NewerRulesError):
            yield int(applied_ms), None
