"""What the counts must be, computed from the log in the plainest way. Imports nothing of Tally."""

from dataclasses import dataclass, field

SLOT_MS = 60_000
WINDOW_MS = 60_000
EARLY_MS = 300_000

CellPlace = tuple[int, str, str, int, int]
"""Partition, counter, region, window, slot."""


@dataclass
class FamilyTruth:
    lateness_ms: int = 86_400_000
    regions: bool = True
    horizon_ms: int = 86_400_000
    cells_max: int = 1_000_000


@dataclass(eq=False)
class RulesTruth:
    version: int = 0
    default: FamilyTruth = field(default_factory=FamilyTruth)
    families: dict[str, FamilyTruth] = field(default_factory=dict)
    ids_limit: int = 1_000_000


@dataclass(slots=True)
class EventTruth:
    counter: str
    region: str
    at_ms: int
    delta: int
    id: str | None = None


@dataclass(slots=True)
class RecordTruth:
    """One record of a partition: a rules record, or the events of a frame (none if it was bad).

    `retries` is the refused place, offset, row and log time, in whose stead it wants to count.
    """

    timestamp_ms: int
    events: list[EventTruth] = field(default_factory=list)
    rules: RulesTruth | None = None
    is_bad: bool = False
    retries: tuple[int, int, int] | None = None

    @property
    def happened_ms(self) -> int:
        """Its log time; a retry keeps that of what it retries."""
        return self.timestamp_ms if self.retries is None else self.retries[2]


@dataclass
class Counted:
    """Cells as (p, n, duplicates), and the places that were refused."""

    cells: dict[CellPlace, tuple[int, int, int]]
    refused: set[tuple[int, int, int]]


class Partition:
    """Counts the records of one partition, one after the other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rules, self.log_ms = RulesTruth(), 0
        self.cells: dict[CellPlace, list[int]] = {}
        self.refused: set[tuple[int, int, int]] = set()
        self.retried_by: dict[tuple[int, int, int], int] = {}
        self.occurrences: list[tuple[str, str, int]] = []

    def record(self, offset: int, record: RecordTruth) -> None:
        self.log_ms = max(self.log_ms, record.timestamp_ms)
        if record.rules is not None and record.rules.version > self.rules.version:
            self.rules = record.rules
        if record.is_bad:
            self.may_retry(record.retries, offset)
            self.refused.add((offset, 0, record.happened_ms))
        for row, event in enumerate(record.events):
            may_count = record.retries is None or self.may_retry(record.retries, offset)
            family = self.rules.families.get(event.counter.split(":")[0], self.rules.default)
            late = self.log_ms - event.at_ms > family.lateness_ms
            if late or event.at_ms - self.log_ms > EARLY_MS:
                self.refused.add((offset, row, record.happened_ms))
            elif may_count and event.id is not None:
                self.add(event, family, counts=self.is_first(event, family))
            else:
                self.add(event, family, counts=may_count)

    def may_retry(self, place: tuple[int, int, int] | None, offset: int) -> bool:
        if place is None or place not in self.refused:
            return False
        return self.retried_by.setdefault(place, offset) == offset

    def is_first(self, event: EventTruth, family: FamilyTruth) -> bool:
        assert event.id is not None
        rules, log_ms = self.rules, self.log_ms
        # Out of the longest horizon, or not among the last ones, is forgotten for good.
        longest_ms = max(f.horizon_ms for f in (rules.default, *rules.families.values()))
        kept = [o for o in self.occurrences if log_ms - o[2] <= longest_ms]
        kept = kept[max(0, len(kept) - rules.ids_limit) :]
        self.occurrences = [*kept, (event.counter, event.id, log_ms)]
        return not any(
            (counter, id_) == (event.counter, event.id) and log_ms - at_ms <= family.horizon_ms
            for counter, id_, at_ms in kept
        )

    def add(self, event: EventTruth, family: FamilyTruth, *, counts: bool) -> None:
        window, slot = event.at_ms // WINDOW_MS * WINDOW_MS, self.log_ms // SLOT_MS * SLOT_MS
        region = event.region if family.regions else ""
        place = (self.number, event.counter, region, window, slot)
        if place not in self.cells and self.opened(event.counter, slot) >= family.cells_max:
            place = (self.number, self.rest(event.counter), "", window, slot)
        cell = self.cells.setdefault(place, [0, 0, 0])
        if counts:
            cell[0 if event.delta > 0 else 1] += abs(event.delta)
        else:
            cell[2] += 1

    def rest(self, counter: str) -> str:
        """Where the increments go that may open no cell of their own."""
        family = counter.split(":", maxsplit=1)[0]
        return f"{family}:" if family in self.rules.families else ":"

    def opened(self, counter: str, slot: int) -> int:
        """How many cells the counter's group has in a slot, by the rules that hold now."""
        return sum(
            1
            for _, name, _, _, at in self.cells
            if at == slot and self.rest(name) == self.rest(counter) and self.rest(name) != name
        )


def count(number: int, records: list[RecordTruth]) -> Counted:
    """Count one partition from its beginning."""
    partition = Partition(number)
    for offset, record in enumerate(records):
        partition.record(offset, record)
    cells = {place: (p, n, duplicates) for place, (p, n, duplicates) in partition.cells.items()}
    return Counted(cells, {(number, *place[:2]) for place in partition.refused})
