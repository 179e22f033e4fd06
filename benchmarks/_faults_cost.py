"""What a fault cost, out of single times and reads. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Taken = tuple[float, float]
"""When an increment was sent, and how long something of it took, in seconds."""


class Answer(StrEnum):
    """What became of a read."""

    WHOLE = "whole"
    INCOMPLETE = "incomplete"
    """A number that says of itself that counts may be missing."""

    NONE = "none"
    """No process gave a number."""


class Read(NamedTuple):
    """One read of a client that knows all web processes, from its begin to its last answer."""

    began_s: float
    ended_s: float
    answer: Answer


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one fault in one round, from its begin until all had been well for a while.

    `stood_still_s` is the longest time from an increment's call to its count in ClickHouse,
    `waited_s` the longest to its acknowledgement, `unanswered_s` the longest that a reader was
    without a whole answer, `well_after_s` the time until
    all was well.
    """

    fault: str
    stood_still_s: float
    waited_s: float
    reads: int
    failed: int
    incomplete: int
    unanswered_s: float
    well_after_s: float


def cost(
    fault: str,
    began_s: float,
    well_s: float,
    *,
    counted: Iterable[Taken],
    acknowledged: Iterable[Taken],
    reads: Iterable[Read],
) -> Cost:
    """Of all that was sent and asked from `began_s` on, also since all is well.

    Raises ValueError where nothing was sent or nothing was asked: then nothing was found out.
    """
    asked = [read for read in reads if read.began_s >= began_s]
    if not asked:
        raise ValueError(f"nothing was read during: {fault}")
    return Cost(
        fault,
        _longest(counted, began_s),
        _longest(acknowledged, began_s),
        len(asked),
        sum(read.answer is Answer.NONE for read in asked),
        sum(read.answer is Answer.INCOMPLETE for read in asked),
        longest_without(asked),
        well_s - began_s,
    )


def longest_without(reads: Sequence[Read]) -> float:
    """For how long at most there was no whole answer.

    From the begin of the first read in a row that had none to the end of the next that had one.
    """
    longest, since_s = 0.0, None
    for read in sorted(reads):
        if read.answer is not Answer.WHOLE:
            since_s = read.began_s if since_s is None else since_s
        elif since_s is not None:
            longest, since_s = max(longest, read.ended_s - since_s), None
    if since_s is not None:
        longest = max(longest, max(read.ended_s for read in reads) - since_s)
    return longest


def _longest(taken: Iterable[Taken], since_s: float) -> float:
    return max(took_s for sent_s, took_s in taken if sent_s >= since_s)
