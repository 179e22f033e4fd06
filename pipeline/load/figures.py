"""What became of a load so far: figures that can be added up over processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.load.latencies import Latencies
from pipeline.load.truth import Sums  # noqa: TC001 - a dataclass's field
from pipeline.producer.receipts import Places


@dataclass(slots=True)
class Figures:
    """`sent` were handed over, `stored` are confirmed, `unknown` may be in the log or not.

    `refused` are the bad ones among the stored: dead letters to be. `recent` are the latencies
    since the last report.
    """

    sent: int = 0
    stored: int = 0
    unknown: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)
    recent: Latencies = field(default_factory=Latencies)

    @property
    def rate(self) -> float:
        """Increments a second."""
        return self.sent / self.seconds if self.seconds else 0.0

    def merge(self, other: Figures) -> None:
        """Take in those of a process that ran beside."""
        self.sent += other.sent
        self.stored += other.stored
        self.unknown += other.unknown
        self.refused += other.refused
        self.seconds = max(self.seconds, other.seconds)
        self.latencies.merge(other.latencies)
        self.recent.merge(other.recent)


@dataclass(slots=True)
class Done:
    """At the end: figures, the last offset by partition, and the truth if it was asked for."""

    figures: Figures
    places: Places = field(default_factory=Places)
    sums: Sums | None = None
