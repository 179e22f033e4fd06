"""Where log time puts a row: its slot, or out. Pure."""

from typing import NamedTuple

from pipeline.rules import EARLINESS_MS
from pipeline.slots import SLOT_MS

EARLY_REASON = f"at: more than {EARLINESS_MS // 1000} s ahead of log time"


OVERFLOW_REASON = "delta: the counter's cell would overflow"


STRICT_REASON = (
    "counter: its family is strict; commands go to POST .../increment, /decrement and /acquire"
)


class Misplaced(NamedTuple):
    """A well-formed row that is refused: too late, too far in the future, or too much."""

    offset: int
    row: int
    reason: str


def late_reason(lateness_ms: int) -> str:
    """Why a late row is refused."""
    return f"at: more than {lateness_ms // 1000} s before log time, too late"


def slot_of(log_ms: int) -> int:
    """When the slot of a log time began, in milliseconds since 1970."""
    return log_ms - log_ms % SLOT_MS
