"""What the counts must be, computed from the log in the plainest way. Imports nothing of Tally."""

from collections import defaultdict
from dataclasses import dataclass, field

SLOT_MS = 600_000
WINDOW_MS = 60_000
EARLY_MS = 300_000

CellPlace = tuple[int, str, str, int, int]
"""Partition, counter, region, window, slot."""


@dataclass
class FamilyTruth:
    lateness_ms: int = 86_400_000
    regions: bool = True
    horizon_ms: int = 86_400_000


@dataclass
class RulesTruth:
    version: int = 0
    default: FamilyTruth = field(default_factory=FamilyTruth)
    families: dict[str, FamilyTruth] = field(default_factory=dict)
    ids_limit: int = 1_000_000


@dataclass
class EventTruth:
    counter: str
    region: str
    at_ms: int
    delta: int
    id: str | None = None


@dataclass
class RecordTruth:
    """One record of a partition: a rules record, or the events of a frame (none if it was bad)."""

    timestamp_ms: int
    events: list[EventTruth] = field(default_factory=list)
    rules: RulesTruth | None = None


@dataclass
class Counted:
    """Cells as (p, n), and the places that were refused for their time."""

    cells: dict[CellPlace, tuple[int, int]]
    refused: set[tuple[int, int, int]]


def count(partition: int, records: list[RecordTruth]) -> Counted:
    """Count one partition from its beginning."""
    cells: dict[CellPlace, list[int]] = defaultdict(lambda: [0, 0])
    refused: set[tuple[int, int, int]] = set()
    occurrences: list[tuple[str, str, int]] = []
    rules, log_ms = RulesTruth(), 0
    for offset, record in enumerate(records):
        log_ms = max(log_ms, record.timestamp_ms)
        if record.rules is not None and record.rules.version > rules.version:
            rules = record.rules
        for row, event in enumerate(record.events):
            family = rules.families.get(event.counter.split(":")[0], rules.default)
            late = log_ms - event.at_ms > family.lateness_ms
            if late or event.at_ms - log_ms > EARLY_MS:
                refused.add((partition, offset, row))
                continue
            if event.id is not None:
                # Out of the longest horizon, or not among the last ones, is forgotten for good.
                longest_ms = max(f.horizon_ms for f in (rules.default, *rules.families.values()))
                occurrences = [o for o in occurrences if log_ms - o[2] <= longest_ms]
                occurrences = occurrences[max(0, len(occurrences) - rules.ids_limit) :]
                is_duplicate = any(
                    (counter, id_) == (event.counter, event.id)
                    and log_ms - at_ms <= family.horizon_ms
                    for counter, id_, at_ms in occurrences
                )
                occurrences.append((event.counter, event.id, log_ms))
                if is_duplicate:
                    continue
            place = (
                partition,
                event.counter,
                event.region if family.regions else "",
                event.at_ms // WINDOW_MS * WINDOW_MS,
                log_ms // SLOT_MS * SLOT_MS,
            )
            cells[place][0 if event.delta > 0 else 1] += abs(event.delta)
    return Counted({place: (p, n) for place, (p, n) in cells.items()}, refused)
