"""What came out of a race: medians, spreads and ratios of each contestant, as text and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.race.turns import Racer, Turn

BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Figures:
    """One contestant: medians of its rounds.

    `ratio` is to the ceiling, the median of the ratios within each round. Processors' seconds are
    per million events: its own processes', the store's (ClickHouse, Redis), and the broker's.
    """

    name: str
    stores: str
    events: int
    per_s: float
    spread: float
    ratio: float
    own_s: float
    store_s: float
    broker_s: float
    own_mb: float
    store_mb: float
    rounds_per_s: tuple[float, ...]

    def times(self, other: Figures) -> float:
        """How many times as quick as the other: the median of the ratios within each round."""
        return statistics.median(
            mine / theirs
            for mine, theirs in zip(self.rounds_per_s, other.rounds_per_s, strict=True)
        )

    def document(self) -> dict[str, Any]:
        """The same for a machine to read."""
        return {
            "stores": self.stores,
            "events": self.events,
            "events_per_s": round(self.per_s),
            "ratio_to_ceiling": round(self.ratio, 4),
            "spread": round(self.spread, 3),
            "cpu_s_per_million": {
                "own": round(self.own_s, 2),
                "store": round(self.store_s, 2),
                "broker": round(self.broker_s, 2),
            },
            "peak_memory_mb": {"own": round(self.own_mb), "store": round(self.store_mb)},
            "rounds_events_per_s": [round(rate) for rate in self.rounds_per_s],
        }


@dataclass(frozen=True, slots=True)
class Race:
    """How it was run, and everybody's figures; the ceiling is the first of them."""

    broker: str
    events: int
    counts: int
    partitions: int
    bytes_per_event: float
    rounds: int
    seed: int
    load_before: float
    load_after: float
    figures: tuple[Figures, ...]

    def named(self, name: str) -> Figures | None:
        return next((one for one in self.figures if one.name == name), None)

    def document(self) -> dict[str, Any]:
        """All of it for a machine to read."""
        return {
            "benchmark": "race",
            "broker": self.broker,
            "events": self.events,
            "counts": self.counts,
            "partitions": self.partitions,
            "bytes_per_event": round(self.bytes_per_event, 1),
            "rounds": self.rounds,
            "seed": self.seed,
            "machine": machine(),
            "load_average": {"before": self.load_before, "after": self.load_after},
            "contestants": {one.name: one.document() for one in self.figures},
        }


def figures_of(racer: Racer, ceiling: Racer) -> Figures:
    """Medians of the racer's turns."""
    turns, contestant = racer.turns, racer.contestant
    return Figures(
        name=racer.entry.name,
        stores=racer.entry.stores,
        events=turns[0].events,
        per_s=contestant.rate,
        spread=contestant.spread,
        ratio=contestant.ratio_to(ceiling.contestant),
        own_s=_per_million(turns, [turn.cost.own_s for turn in turns]),
        store_s=_per_million(turns, [_of_stores(turn.cost.servers_s) for turn in turns]),
        broker_s=_per_million(turns, [turn.cost.servers_s.get(BROKER, 0.0) for turn in turns]),
        own_mb=statistics.median(turn.cost.own_mb for turn in turns),
        store_mb=statistics.median(_of_stores(turn.cost.servers_mb) for turn in turns),
        rounds_per_s=tuple(contestant.rates),
    )


def _per_million(turns: Sequence[Turn], seconds: Sequence[float]) -> float:
    return statistics.median(
        spent / turn.events * 1e6 for spent, turn in zip(seconds, turns, strict=True)
    )


def _of_stores(by_server: Mapping[str, float]) -> float:
    return sum(value for name, value in by_server.items() if name != BROKER)


def how_it_was_run(race: Race) -> str:
    """One sentence, without its full stop."""
    return (
        f"{race.events:,} events of {race.bytes_per_event:.0f} bytes in {race.counts:,} counts, "
        f"{race.partitions} partitions, {race.broker}, seed {race.seed}, {race.rounds} rounds; "
        f"load average {race.load_before:.1f} before, {race.load_after:.1f} after"
    )


def table(race: Race) -> str:
    """The table that is printed."""
    above = f"{'x':>19}{'CPU s per million events':>34}{'peak MB':>16}"
    names = f"{'events/s':>10}{'ceiling':>9}{'spread':>8}{'own':>10}{'store':>8}{'broker':>8}"
    lines = [how_it_was_run(race), f"  {'':<26}{above}"]
    lines.append(f"  {'':<26}{names}{'own':>9}{'store':>7}")
    lines += [
        f"  {one.name:<26}{one.per_s:>10,.0f}{one.ratio:>9.3f}{one.spread:>8.0%}"
        f"{one.own_s:>10.2f}{one.store_s:>8.2f}{one.broker_s:>8.2f}"
        f"{one.own_mb:>9,.0f}{one.store_mb:>7,.0f}"
        for one in race.figures
    ]
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """What it was run on."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "processors": os.cpu_count(),
        "model": models[0] if models else platform.machine(),
        "memory_gb": round(memory_gb),
        "python": platform.python_version(),
    }
