"""The counting rules as the core uses them. Pure.

Rules are in the log: a record of kind `rules` in every partition holds them from its offset on, so
that whoever counts a record counts it by the same rules. Where two appliers race, the greater
version wins in every partition, whatever their order there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import msgspec

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES_KIND = "rules"
"""The value of the header `tally-kind` of a rules record."""

IDS_LIMIT = 1_000_000
"""How many occurrences of ids a partition remembers."""

EARLINESS_MS = 300_000
"""How far `at` may be ahead of log time, in any family."""


# Bounds far above any sense, so that no arithmetic on times can overflow.
DurationMs = Annotated[int, msgspec.Meta(ge=0, le=36_500 * 86_400_000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class FamilyRules(msgspec.Struct, frozen=True):
    """What decides how a family's records are counted."""

    lateness_ms: DurationMs = 86_400_000
    regions: bool = True
    ids_horizon_ms: DurationMs = 86_400_000


_DEFAULT = FamilyRules()


class _Document(msgspec.Struct):
    """The form in the log. Fields of other versions of Tally are ignored."""

    version: Version
    default: FamilyRules = _DEFAULT
    families: dict[str, FamilyRules] = {}
    ids_limit: Limit = IDS_LIMIT


@dataclass(frozen=True)
class CountingRules:
    """All families' rules, and which version of them this is; 0 is what holds before any record."""

    version: int = 0
    default: FamilyRules = _DEFAULT
    families: Mapping[str, FamilyRules] = field(default_factory=dict)
    ids_limit: int = IDS_LIMIT

    def of(self, counter: str) -> FamilyRules:
        """The rules for a counter."""
        if not self.families:
            return self.default
        return self.families.get(counter.partition(":")[0], self.default)

    @cached_property
    def ids_horizon_ms_max(self) -> int:
        """The longest horizon of any family."""
        return max(rules.ids_horizon_ms for rules in (self.default, *self.families.values()))

    @cached_property
    def bytes(self) -> bytes:
        """As a rules record's value. Equal rules give equal bytes."""
        families = dict(sorted(self.families.items()))
        document = _Document(self.version, self.default, families, self.ids_limit)
        return msgspec.json.encode(document, order="sorted")


def parse_rules(value: bytes) -> CountingRules:
    """The rules in a rules record. Raises BadInputError for what is none."""
    try:
        document = msgspec.json.decode(value, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInputError(f"not counting rules: {error}") from error
    return CountingRules(document.version, document.default, document.families, document.ids_limit)
