"""What synthetic load is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import BadInputError
from schemas.events import check_event

COUNTERS_MAX = 10_000_000
MEMBERS_MAX = 1_000_000_000
SKEW_MAX = 10.0
REGIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Mix:
    """Counters by Zipf's law, members and regions evenly; shares are of all, from 0 to 1.

    `late` ones happened minutes to hours ago; `bad` ones are refused by the pipeline; `ids` have an
    id of their own; `removals` take one away. Raises BadInputError for what makes no sense.
    """

    family: str = "load"
    counters: int = 1_000
    skew: float = 1.0
    members: int = 10_000
    regions: tuple[str, ...] = ("eu", "us", "asia")
    late: float = 0.0
    bad: float = 0.0
    ids: float = 0.0
    removals: float = 0.0

    def __post_init__(self) -> None:
        _within("counters", self.counters, 1, COUNTERS_MAX)
        _within("members", self.members, 0, MEMBERS_MAX)
        _within("skew", self.skew, 0, SKEW_MAX)
        for name in ("late", "bad", "ids", "removals"):
            _within(name, getattr(self, name), 0, 1)
        if ":" in self.family:
            raise BadInputError(f"family: {self.family!r} has a colon, which ends a family")
        _within("regions", len(self.regions), 1, REGIONS_MAX)
        if len(set(self.regions)) < len(self.regions):
            raise BadInputError("regions: one is named twice")
        for region in self.regions:
            check_event({"counter": self.counter(self.counters), "region": region})

    def counter(self, number: int) -> str:
        """The name of a counter; number 1 has most of the increments."""
        return f"{self.family}:counter-{number}"


def _within(name: str, value: float, least: float, greatest: float) -> None:
    if not least <= value <= greatest:
        raise BadInputError(f"{name}: {value:g} is not from {least:g} to {greatest:g}")
