"""What this pipeline wants to reach beside the others, on two cores, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
