"""The counting rules as the core uses them. Pure.

Rules are in the log: a record of kind `rules` in every partition holds them from its offset on, so
that whoever counts a record counts it by the same rules. Where two appliers race, the greater
version wins in every partition, whatever their order there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from pipeline.errors import BadInputError, OperatorError
from schemas.rules import (
    GRAIN_MS,
    IDS_PER_PARTITION,
    ONCE_ERROR_MAX,
    ONCE_ERROR_MIN,
    SHARDS_MAX,
    STRICT_IDS_MAX,
    STRICT_IDS_MIN,
    Family,
    Grain,
)
from sketches.precision import PRECISION_MAX, PRECISION_MIN, precision_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.families import Families

RULES_KIND = "rules"
"""The value of the header `tally-kind` of a rules record."""

EARLINESS_MS = 300_000
"""How far `at` may be ahead of log time, in any family."""

VERSION_MAX = 4_102_444_800_000
"""Versions are times in milliseconds; one after the year 2099 is nobody's, and is refused. Were it
taken, whoever applies rules next would have to go above it, and in the end above any bound."""


# Bounds far above any sense, so that no arithmetic on times can overflow.
DurationMs = Annotated[int, msgspec.Meta(ge=0, le=36_500 * 86_400_000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
Version = Annotated[int, msgspec.Meta(ge=0)]
Partitions = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Precision = Annotated[int, msgspec.Meta(ge=0, le=PRECISION_MAX)]
Grains = Annotated[tuple[Grain, ...], msgspec.Meta(min_length=1, max_length=len(GRAIN_MS))]
SketchError = Annotated[float, msgspec.Meta(ge=0.0005, le=0.5)]
SketchKeys = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
OnceError = Annotated[float, msgspec.Meta(ge=0, le=ONCE_ERROR_MAX)]
Shards = Annotated[int, msgspec.Meta(ge=0, le=SHARDS_MAX)]


_UNSAID = Family()
"""What a family's rules are where nobody has said otherwise."""


def _precision(family: Family) -> int:
    """Of the registers of distinct members; 0 where these are not counted."""
    return precision_for(family.distinct.error) if family.distinct.enabled else 0


def _shards(family: Family) -> int:
    """Into how many shards producers split the family's counters; 0 is adaptive."""
    return 0 if family.shards == "adaptive" else family.shards


def _strict(family: Family) -> StrictRules | None:
    """How a strict family's commands are made; None for another kind."""
    if family.kind != "strict":
        return None
    found = family.strict
    return StrictRules(found.window, found.limit, found.per_ms, found.ids_kept)


class TrendRules(msgspec.Struct, frozen=True):
    """From when on a counter is trending: see `schemas.rules.Trends`."""

    enabled: bool = _UNSAID.trends.enabled
    k: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = _UNSAID.trends.k
    min_count: Annotated[int, msgspec.Meta(ge=1)] = _UNSAID.trends.min_count
    min_score: Annotated[float, msgspec.Meta(gt=0)] = _UNSAID.trends.min_score
    min_uniques: Annotated[int, msgspec.Meta(ge=0)] = _UNSAID.trends.min_uniques
    max_per_member: Annotated[float, msgspec.Meta(ge=0)] = _UNSAID.trends.max_per_member
    min_regions: Annotated[int, msgspec.Meta(ge=1)] = _UNSAID.trends.min_regions

    @property
    def by_members(self) -> bool:
        """Whether it matters who did it."""
        return self.enabled and bool(self.min_uniques or self.max_per_member)


class StrictRules(msgspec.Struct, frozen=True):
    """What commands of a strict family carry where a request does not say: `schemas.rules.Strict`.

    No limit or window is one that every request must name.
    """

    window: Literal["fixed", "sliding"] = _UNSAID.strict.window
    limit: Annotated[int, msgspec.Meta(ge=1, le=2**40)] | None = None
    window_ms: DurationMs | None = None
    ids_kept: Annotated[int, msgspec.Meta(ge=STRICT_IDS_MIN, le=STRICT_IDS_MAX)] = (
        _UNSAID.strict.ids_kept
    )


class FamilyRules(msgspec.Struct, frozen=True):
    """What decides how a family's records are counted: the part of `Family` that is in the log.

    `shards` decides no count. It is here because producers read these rules from the plan, and
    because a change of it is then applied like any other. 0 is adaptive. `strict` is there for a
    strict family alone, whose increments are refused: `tally.strict` has its commands.
    """

    lateness_ms: DurationMs = _UNSAID.lateness_ms
    regions: bool = _UNSAID.regions
    ids_horizon_ms: DurationMs = _UNSAID.ids.horizon_ms
    cells_max: Limit = _UNSAID.cells_max
    distinct_precision: Precision = _precision(_UNSAID)
    distinct_grains: Grains = tuple(_UNSAID.distinct.grains)
    sketched: bool = _UNSAID.kind == "sketched"
    sketch_error: SketchError = _UNSAID.sketch.error
    sketch_keys: SketchKeys = _UNSAID.sketch.keys
    trends: TrendRules = TrendRules()
    shards: Shards = _shards(_UNSAID)
    once_per_member: bool = _UNSAID.once_per == "member"
    once_per_error: OnceError = _UNSAID.once_per_error
    strict: StrictRules | None = None

    def __post_init__(self) -> None:
        if 0 < self.distinct_precision < PRECISION_MIN:
            raise ValueError(f"distinct_precision is 0 or {PRECISION_MIN} to {PRECISION_MAX}")
        if 0 < self.once_per_error < ONCE_ERROR_MIN:
            raise ValueError(f"once_per_error is 0 or {ONCE_ERROR_MIN:f} to {ONCE_ERROR_MAX}")

    @property
    def distinct_window_ms(self) -> int:
        """The length of the windows whose registers are kept; coarser ones are unions of them."""
        return min(GRAIN_MS[grain] for grain in self.distinct_grains)


_DEFAULT = FamilyRules()


FORMAT = 1
"""Of the document. It is not written while it is 1, so that equal rules have equal bytes whichever
version of Tally wrote them."""


class NewerRulesError(OperatorError):
    """Rules that are right, but of a form that this Tally does not know.

    They must not be passed over as bad ones are: who counts on by the rules before them counts
    otherwise than the log says.
    """


class _Format(msgspec.Struct):
    """As much as every form has."""

    format: int = FORMAT


class _Document(msgspec.Struct):
    """The form in the log. Fields of other versions of Tally are ignored."""

    version: Version
    default: FamilyRules = _DEFAULT
    families: dict[str, FamilyRules] = {}
    ids_limit: Limit = IDS_PER_PARTITION
    id_partitions: Partitions = 0


@dataclass(frozen=True)
class CountingRules:
    """All families' rules, and which version of them this is; 0 is what holds before any record.

    `id_partitions` is how many partitions the topic began with, which is what ids are routed by; 0
    while nobody has said.
    """

    version: int = 0
    default: FamilyRules = _DEFAULT
    families: Mapping[str, FamilyRules] = field(default_factory=dict)
    ids_limit: int = IDS_PER_PARTITION
    id_partitions: int = 0

    def of(self, counter: str) -> FamilyRules:
        """The rules for a counter."""
        if not self.families:
            return self.default
        return self.families.get(counter.partition(":")[0], self.default)

    def group_of(self, counter: str) -> str:
        """The family a counter's cells are capped with; "" for all that no rule names."""
        family = counter.partition(":")[0]
        return family if family in self.families else ""

    def cells_max(self, group: str) -> int:
        """How many cells a group may open in a slot."""
        return self.families.get(group, self.default).cells_max

    @cached_property
    def has_sketched(self) -> bool:
        """Whether any family is counted without cells of its counters."""
        return any(rules.sketched for rules in (self.default, *self.families.values()))

    @cached_property
    def has_once_per_member(self) -> bool:
        """Whether any family counts each member once."""
        return any(rules.once_per_member for rules in (self.default, *self.families.values()))

    @cached_property
    def has_strict(self) -> bool:
        """Whether any family is strict."""
        return any(rules.strict for rules in (self.default, *self.families.values()))

    @cached_property
    def lateness_ms_min(self) -> int:
        """The shortest lateness of any family."""
        return min(rules.lateness_ms for rules in (self.default, *self.families.values()))

    @cached_property
    def ids_horizon_ms_max(self) -> int:
        """The longest horizon of any family."""
        return max(rules.ids_horizon_ms for rules in (self.default, *self.families.values()))

    def supersedes(self, other: CountingRules) -> bool:
        """Whether these hold where both are in the log, in whichever order they are there."""
        if self.version == other.version:
            return self.bytes > other.bytes
        return self.version > other.version

    def counts_as(self, other: CountingRules) -> bool:
        """Whether both count alike, of whatever version and for however many partitions."""
        return replace(self, version=0, id_partitions=0) == replace(
            other, version=0, id_partitions=0
        )

    @cached_property
    def bytes(self) -> bytes:
        """As a rules record's value. Equal rules give equal bytes."""
        families = dict(sorted(self.families.items()))
        document = _Document(
            self.version, self.default, families, self.ids_limit, self.id_partitions
        )
        return msgspec.json.encode(document, order="sorted")


def parse_rules(value: bytes) -> CountingRules:
    """The rules in a rules record.

    Raises BadInputError for what is none, NewerRulesError for a newer Tally's.
    """
    try:
        if (found := msgspec.json.decode(value, type=_Format).format) > FORMAT:
            raise NewerRulesError(
                f"counting rules of format {found}, which a newer Tally applied; this one reads "
                f"format {FORMAT}: use the version that applied them"
            )
        document = msgspec.json.decode(value, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"not counting rules: {error}") from error
    if document.version > VERSION_MAX:
        raise BadInputError(
            f"not counting rules: version {document.version} is above {VERSION_MAX}, the greatest "
            "there may be"
        )
    return CountingRules(
        document.version,
        document.default,
        document.families,
        document.ids_limit,
        document.id_partitions,
    )


def counting_rules(families: Families, version: int = 0, id_partitions: int = 0) -> CountingRules:
    """What of the families' rules decides counting.

    A family that is named keeps its place even if its rules are the default's, because it has a cap
    of cells of its own.
    """
    return CountingRules(
        version,
        _family_rules(families.default),
        {name: _family_rules(family) for name, family in families.families.items()},
        families.ids_per_partition,
        id_partitions,
    )


def _family_rules(family: Family) -> FamilyRules:
    return FamilyRules(
        family.lateness_ms,
        family.regions,
        family.ids.horizon_ms,
        family.cells_max,
        _precision(family),
        tuple(family.distinct.grains),
        family.kind == "sketched",
        family.sketch.error,
        family.sketch.keys,
        TrendRules(**family.trends.model_dump()),
        _shards(family),
        once_per_member=family.once_per == "member",
        once_per_error=family.once_per_error,
        strict=_strict(family),
    )
