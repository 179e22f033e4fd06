"""The shapes of answers, for the OpenAPI description. Answers themselves are not made by these."""

from typing import Literal

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """What is wrong."""

    error: str = Field(description="One line that says what to do.")


class Known(BaseModel):
    """How an answer is known."""

    as_of: str | None = Field(description="When the shard flushed longest ago was flushed.")
    staleness_ms: int | None = Field(description="How long ago that was.")
    complete: bool = Field(description="False when a shard could not be asked.")
    remarks: list[str] = Field(default=[], description="What to know of it; may be left out.")


class WindowCount(BaseModel):
    """A window's count."""

    window: str = Field(description="When it begins (UTC).")
    count: int = Field(description="Raw: may be below zero.")
    low: int | None = None
    high: int | None = None
    error: int | None = None


class Count(Known):
    """A counter's value. Bounds are there only where it is estimated."""

    counter: str
    total: int = Field(description="The value to show: never below zero.")
    net: int = Field(description="Everything added less everything taken away.")
    windows: list[WindowCount]
    mode: Literal["cached", "exact", "live"]
    low: int | None = None
    high: int | None = None
    error: int | None = None
    capped: bool | None = None


class Counts(BaseModel):
    """Several counters at once."""

    counters: list[Count]


class WindowUniques(BaseModel):
    """A window's distinct members."""

    window: str
    uniques: int
    low: int
    high: int


class Uniques(Known):
    """About how many distinct members; the bounds hold with a confidence of 95 %."""

    counters: list[str]
    uniques: int
    low: int
    high: int
    windows: list[WindowUniques] | None = None


class Families(BaseModel):
    """Names of families."""

    families: list[str]


class Ranked(BaseModel):
    """A place in a ranking."""

    rank: int
    counter: str
    count: int
    error: int


class Top(Known):
    """The greatest counters of a family."""

    family: str
    region: str
    window: str
    since: str
    until: str | None
    top: list[Ranked]
    capped: bool | None = None


class TrendingCounter(BaseModel):
    """What trends, or leads."""

    rank: int
    counter: str
    observed: int
    expected: float
    score: float
    kind: Literal["rising", "new", "top"]
    horizon_minutes: int
    entered: str | None


class Trending(Known):
    """What trends in a family."""

    family: str
    region: str
    window: str | None
    provisional: bool
    trending: list[TrendingCounter]


class Receipt(BaseModel):
    """Where the log has what was sent; give it to a read as `after`."""

    receipt: str = Field(description="partition:offset, with commas between.")


class Decision(BaseModel):
    """What a strict counter decided. The same id has the same answer."""

    model_config = {
        "json_schema_extra": {
            "examples": [
                {"accepted": True, "remaining": 998, "id": "order-8471"},
                {"accepted": False, "remaining": 0, "id": "order-8472"},
            ]
        }
    }

    accepted: bool
    remaining: int = Field(
        description="What could still be taken then: down to the floor, or up to the limit in this "
        "window; of an increment, the value."
    )
    id: str = Field(description="As it was sent, or made for it.")


class RefusedLine(BaseModel):
    """A line that is no event."""

    line: int
    reason: str


class Bulk(Receipt):
    """What became of many increments."""

    accepted: int
    refused: int
    reasons: list[RefusedLine] = Field(description="Of the first refused lines.")


class Health(BaseModel):
    """Whether counting goes on as it should. With tokens, the rest is for who may read all."""

    healthy: bool
    problems: list[str] | None = None
    remarks: list[str] | None = None
