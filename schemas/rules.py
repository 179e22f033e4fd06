"""The rules of one family of counters, as `tally.toml` writes them and the pipeline uses them."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Grain = Literal["1m", "1h", "1d"]
GRAINS: tuple[Grain, ...] = ("1m", "1h", "1d")

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
GRAIN_MS: dict[Grain, int] = {
    "1m": _UNITS_MS["m"],
    "1h": _UNITS_MS["h"],
    "1d": _UNITS_MS["d"],
}
_DURATION_MAX_MS = 36_500 * _UNITS_MS["d"]
_FOREVER = "forever"

SHARDS_MAX = 4096
"""Into how many shards a counter can be split: as many as a log may have partitions."""

ONCE_ERROR_MIN = 0.000001
ONCE_ERROR_MAX = 0.1
"""What share of new members a filter may take for repeats."""

IDS_PER_PARTITION = 1_000_000
"""How many occurrences of ids a partition remembers, those of all families together."""

STRICT_IDS_KEPT = 1_000
STRICT_IDS_MIN = 1_000
STRICT_IDS_MAX = 20_000
"""How many ids a strict counter remembers: all of them are in its one changelog record."""


def parse_duration_ms(value: object) -> int:
    """Milliseconds of "30s", "10m", "24h" or "7d". Raises ValueError saying so."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('expected a duration such as "30s", "10m", "24h" or "7d"')
    duration_ms = int(match[1]) * _UNITS_MS[match[2]]
    if not 0 < duration_ms <= _DURATION_MAX_MS:
        raise ValueError("expected a duration above 0 and up to 36500d")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """The shortest text that `parse_duration_ms` reads as this, or milliseconds if none does."""
    for unit in ("d", "h", "m", "s"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def _retention_ms(value: object) -> int | None:
    return None if value == _FOREVER else parse_duration_ms(value)


def _in_order(grains: list[Grain]) -> list[Grain]:
    """Without repetitions and from fine to coarse, so that equal rules have equal texts."""
    return [grain for grain in GRAINS if grain in grains]


def _exact_or_error(error: float) -> float:
    if error and not ONCE_ERROR_MIN <= error <= ONCE_ERROR_MAX:
        raise ValueError(f"expected 0, which is exact, or {ONCE_ERROR_MIN:f} to {ONCE_ERROR_MAX}")
    return error


DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
RetentionMs = Annotated[int | None, BeforeValidator(_retention_ms)]


class Rules(BaseModel):
    """What all rules share: nothing unknown, and strict, so that "5" is not 5, nor 1 true."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sketch(Rules):
    """Counters without cells of their own: the error wanted of a count, and how many can lead."""

    error: float = Field(
        default=0.002,
        ge=0.0005,
        le=0.5,
        allow_inf_nan=False,
        description="How far an estimate's bounds are apart, as a share of all that was sketched.",
    )
    keys: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Names of the heaviest counters that a shard keeps per region and slot.",
    )


class Distinct(Rules):
    """Distinct members: on or off, the relative standard error wanted, and for which grains."""

    enabled: bool = Field(default=True, description="Whether distinct members are counted.")
    error: float = Field(
        default=0.02,
        ge=0.005,
        le=0.25,
        allow_inf_nan=False,
        description="The relative standard error of a distinct count.",
    )
    grains: Annotated[list[Grain], Field(min_length=1), AfterValidator(_in_order)] = Field(
        default=["1h", "1d"], description="The windows for which members are kept."
    )


class Trends(Rules):
    """Trends: how many counters are ranked, and from when on one is trending.

    `min_count` is of the last hour. `min_uniques` is of members beyond the usual ones, and
    `max_per_member` is how many times the usual events each of these made; 0 allows any number.
    `min_regions` is for all regions together; where fewer are active, all of these.
    """

    enabled: bool = Field(default=True, description="Whether trends are ranked.")
    k: int = Field(default=100, ge=1, le=10_000, description="Counters of a ranking at most.")
    min_count: int = Field(
        default=10, ge=1, le=2**40, description="What a counter must have in the last hour."
    )
    min_score: float = Field(
        default=7.0,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="How exceptional it must be, about in standard deviations.",
    )
    min_uniques: int = Field(
        default=10,
        ge=0,
        le=2**40,
        description="Members beyond its usual ones that it must have; 0 asks for none.",
    )
    max_per_member: float = Field(
        default=5.0,
        ge=0,
        le=1e12,
        allow_inf_nan=False,
        description="Times the usual events that each of these may have made; 0: any number.",
    )
    min_regions: int = Field(
        default=2,
        ge=1,
        le=10_000,
        description="Regions it must trend in to trend in all; where fewer are active, in these.",
    )


class Retention(Rules):
    """How long windows of each grain are kept; None is for ever. Lifetime totals always are."""

    minute_ms: RetentionMs = Field(
        default=7 * _UNITS_MS["d"], alias="1m", description="How long minutes are kept."
    )
    hour_ms: RetentionMs = Field(
        default=90 * _UNITS_MS["d"], alias="1h", description="How long hours are kept."
    )
    day_ms: RetentionMs = Field(default=None, alias="1d", description="How long days are kept.")


class Ids(Rules):
    """How long an id is remembered, by log time; `ids_per_partition` may end it sooner."""

    horizon_ms: DurationMs = Field(
        default=_UNITS_MS["d"],
        alias="horizon",
        description="How long an id is remembered, by log time.",
    )


class Strict(Rules):
    """Strict counters: how windows of a limit go, what holds where a request names none, and how
    many ids a counter remembers."""

    window: Literal["fixed", "sliding"] = Field(
        default="fixed", description="How the windows of a limit go."
    )
    limit: int | None = Field(
        default=None, ge=1, le=2**40, description="Of an `acquire` that names no limit."
    )
    per_ms: DurationMs | None = Field(
        default=None,
        alias="per",
        le=366 * _UNITS_MS["d"],
        description="Of an `acquire` that names no window: up to 366 days.",
    )
    ids_kept: int = Field(
        default=STRICT_IDS_KEPT,
        ge=STRICT_IDS_MIN,
        le=STRICT_IDS_MAX,
        description="How many ids a strict counter remembers.",
    )


class Family(Rules):
    """The rules of one family of counters. The defaults here are the only ones there are."""

    kind: Literal["exact", "sketched", "strict"] = Field(
        default="exact",
        description="Cells of each counter, sketches of fixed size, or commands decided singly.",
    )
    regions: bool = Field(
        default=True, description="Whether regions are told apart; if not, all are unknown."
    )
    lateness_ms: DurationMs = Field(
        default=_UNITS_MS["d"],
        alias="lateness",
        description="An increment older than this, by log time, is refused as too late.",
    )
    cells_max: int = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="Cells that a shard may open in a slot; past it, increments are sketched.",
    )
    shards: Annotated[int, Field(ge=1, le=SHARDS_MAX)] | Literal["adaptive"] = Field(
        default="adaptive", description="Shards of each counter: as many as it needs, or a number."
    )
    read_mode: Literal["cached", "exact", "live"] = Field(
        default="cached", description="How `tally count` reads where the file sets it."
    )
    sketch: Sketch = Sketch()
    distinct: Distinct = Distinct()
    trends: Trends = Trends()
    retention: Retention = Retention()
    ids: Ids = Ids()
    once_per: Literal["id", "member"] = Field(
        default="id", description="`member`: one counts once per counter until taken back."
    )
    once_per_error: Annotated[float, AfterValidator(_exact_or_error)] = Field(
        default=0.0,
        description='With `once_per = "member"`: 0 is exact, 0.000001 to 0.1 takes filters.',
    )
    strict: Strict = Strict()
