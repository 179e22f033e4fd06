"""The shapes of what the dashboard reads, for the OpenAPI description; see documents.py."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.adjustments.history import Entry
from pipeline.reads.regions import RegionCount


class Explained(BaseModel):
    """Why a counter has its value: what `tally explain --json` prints."""

    counter: str
    build: int
    since: str | None
    until: str | None
    total: int
    net: int
    p: int = Field(description="Everything added.")
    n: int = Field(description="Everything taken away.")
    duplicates: int = Field(description="Increments skipped because their id was counted.")
    late_p: int
    late_n: int
    shards: list[dict[str, Any]]
    dead_letters: dict[str, Any]
    spilled_to: str | None
    adjustments: dict[str, Any]
    remarks: list[str]
    sketched: dict[str, Any] | None
    capped: bool


class History(BaseModel):
    """Corrections of a counter, newest first."""

    adjustments: list[Entry]


class Regions(BaseModel):
    """A counter by region."""

    counter: str
    regions: list[RegionCount]


class LetterSample(BaseModel):
    """How a refused event begins."""

    place: str = Field(description="partition/offset/row")
    at: str
    bytes: int
    sample: str


class LetterReason(BaseModel):
    """Events that were refused for the same reason."""

    reason: str
    count: int
    samples: list[LetterSample]


class DeadLetters(BaseModel):
    """Refused events that wait."""

    total: int
    reasons: list[LetterReason]


class Build(BaseModel):
    """One counting of the log."""

    build: int
    state: Literal["live", "replaced", "replaying", "waiting"]
    declared_at_ms: int | None
    counts_from_ms: int
    base: int
    behind: int = Field(description="Records of the log that it has not flushed.")
    workers: int
    rows: int
    bytes: int
    note: str


class Builds(BaseModel):
    """Those that were not dropped."""

    builds: list[Build]


class ShardPlan(BaseModel):
    """Counters that are split, hinted or hot: what `tally shard --json` prints."""

    partitions: int
    counters: list[dict[str, Any]]
    over_sharded: dict[str, Any]


class SignedIn(BaseModel):
    """Who the page's reader is."""

    tokens: bool = Field(description="Whether tokens are asked for.")
    name: str | None = Field(description="Whose token it is; null when nobody is signed in.")
    reads_all: bool = Field(description="Whether it may read all families.")
