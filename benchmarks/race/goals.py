"""What this pipeline wants to reach beside the others, on two cores, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from benchmarks.race.figures import Race


@dataclass(frozen=True, slots=True)
class Goal:
    """One contestant shall be at least so many times as quick as another."""

    ours: str
    least: float
    other: str


GOALS = (
    Goal("Tally, JSON", 1.0, "confluent-kafka, bare"),
    Goal("Tally, JSON", 30.0, "Faust, Table"),
    Goal("Tally, JSON", 10.0, "Quix Streams"),
    Goal("Tally, JSON", 5.0, "Bytewax"),
    Goal("Tally, JSON", 0.5, "ClickHouse alone, Kafka"),
    Goal("Tally, JSON", 1.0, "Kafka Streams"),
    Goal("Tally, frames", 3.0, "ClickHouse alone, Kafka"),
)


PASSED_BY = 1.1
"""What reads the same messages cannot be quicker than the ceiling, but for noise."""


def doubts(race: Race, fed: Collection[str]) -> list[str]:
    """One line for each contestant that passed the ceiling although it was fed the same messages.

    Then the ceiling is none: its settings hold it back, and ratios to it mean nothing.
    """
    return [
        f"doubtful: {one.name} was {one.ratio:.2f} times as quick as the ceiling, which reads the "
        f"same messages and does nothing with them"
        for one in race.figures
        if one.name in fed and one.ratio > PASSED_BY
    ]


def reached(race: Race) -> list[tuple[Goal, float]]:
    """The goals whose contestants both took part, with how many times as quick it was.

    Ratios are of rates within a round, and the median of these.
    """
    found = []
    for goal in GOALS:
        ours, other = race.named(goal.ours), race.named(goal.other)
        if ours and other:
            found.append((goal, ours.times(other)))
    return found
