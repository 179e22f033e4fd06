"""What the counts must be, computed from the log in the plainest way. Imports nothing of Tally."""

from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, field

from clickhouse_cityhash.cityhash import CityHash64

SLOT_MS = 60_000
WINDOW_MS = 60_000
EARLY_MS = 300_000

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

CellPlace = tuple[int, str, str, int, int]
"""Partition, counter, region, window, slot."""

Register = tuple[str, str, int, int]
"""Counter, region, hour, number of the register."""

SketchPlace = tuple[int, str, str, int, int]
"""Partition, group of families, region, window (0 for the whole slot), slot."""

REGISTER_BITS = 4
SKETCH_ROWS, SKETCH_WIDTH, SKETCH_KEYS = 6, 6, 2


@dataclass
class FamilyTruth:
    lateness_ms: int = 86_400_000
    regions: bool = True
    horizon_ms: int = 86_400_000
    cells_max: int = 1_000_000
    sketched: bool = False
    once: bool = False
    in_filter: bool = False


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
    member: str | None = None


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
class SlotTruth:
    """What the log has in a slot, and what became of it, in the order in which it is stored."""

    records: int = 0
    rows: int = 0
    added: int = 0
    taken: int = 0
    counted: int = 0
    p: int = 0
    n: int = 0
    duplicates: int = 0
    refused: int = 0
    unreadable: int = 0
    first: int = 0
    through: int = 0


@dataclass
class Counted:
    """Cells as (p, n, duplicates), the places that were refused, and what is kept beside cells.

    `registers` are ranks; `buckets` are additions and removals by number; `heaviest` are counters
    with their additions; `ledger` has the numbers of each slot.
    """

    cells: dict[CellPlace, tuple[int, int, int]]
    refused: set[tuple[int, int, int]]
    registers: dict[Register, int]
    buckets: dict[tuple[SketchPlace, int], tuple[int, int]]
    heaviest: dict[SketchPlace, list[tuple[str, int]]]
    ledger: dict[int, tuple[int, ...]]


class Partition:
    """Counts the records of one partition, one after the other.

    The first rules it ever gets hold from its beginning.
    """

    def __init__(self, number: int, records: list[RecordTruth]) -> None:
        self.number = number
        self.rules = next((one.rules for one in records if one.rules is not None), RulesTruth())
        self.log_ms = 0
        self.cells: dict[CellPlace, list[int]] = {}
        self.refused: set[tuple[int, int, int]] = set()
        self.retried_by: dict[tuple[int, int, int], int] = {}
        self.occurrences: list[tuple[str, str, int]] = []
        self.members: set[tuple[str, str, int, str]] = set()
        self.spilled: dict[SketchPlace, Counter[tuple[str, bool]]] = defaultdict(Counter)
        self.ledger: dict[int, SlotTruth] = {}
        self.inside: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.flipped: dict[tuple[str, str], tuple[int, bool]] = {}
        for offset, record in enumerate(records):
            self.record(offset, record)

    def record(self, offset: int, record: RecordTruth) -> None:
        self.log_ms = max(self.log_ms, record.timestamp_ms)
        if record.rules is not None and record.rules.version > self.rules.version:
            before = {name: self.form(name) for name in self.inside}
            self.rules = record.rules
            for name in [one for one in before if self.form(one) != before[one]]:
                del self.inside[name]
        slot = self.ledger.setdefault(self.log_ms // SLOT_MS * SLOT_MS, SlotTruth(first=offset))
        slot.records, slot.through = slot.records + 1, offset
        slot.unreadable += record.is_bad
        if record.is_bad:
            self.may_retry(record.retries, offset)
            self.refused.add((offset, 0, record.happened_ms))
        for row, event in enumerate(record.events):
            may_count = record.retries is None or self.may_retry(record.retries, offset)
            self.book(slot, event.delta, "added", "taken")
            slot.rows += 1
            family = self.family(event.counter.split(":")[0])
            late = self.log_ms - event.at_ms > family.lateness_ms
            deltas = (1,) if family.in_filter else (1, -1)
            odd = family.once and (event.member is None or event.delta not in deltas)
            if odd or late or event.at_ms - self.log_ms > EARLY_MS:
                self.refused.add((offset, row, record.happened_ms))
                slot.refused += 1
                continue
            if may_count and event.id is not None:
                may_count = self.is_first(event, family)
            if may_count and family.once:
                may_count = self.flips(event, offset)
            self.add(event, family, counts=may_count)
            slot.duplicates += not may_count
            if may_count:
                slot.counted += 1
                self.book(slot, event.delta, "p", "n")

    def family(self, name: str) -> FamilyTruth:
        return self.rules.families.get(name, self.rules.default)

    def form(self, name: str) -> tuple[bool, bool]:
        return self.family(name).once, self.family(name).in_filter

    def flips(self, event: EventTruth, offset: int) -> bool:
        """Put a member in, or take one back; whether that changes anything."""
        assert event.member is not None
        family = self.inside[event.counter.split(":")[0]]
        pair, comes = (event.counter, event.member), event.delta > 0
        if (pair in family) == comes:
            return False
        (family.add if comes else family.remove)(pair)
        if not self.family(event.counter.split(":")[0]).in_filter:
            self.flipped[pair] = (offset, comes)
        return True

    def book(self, slot: SlotTruth, delta: int, up: str, down: str) -> None:
        name = up if delta > 0 else down
        setattr(slot, name, getattr(slot, name) + abs(delta))

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
        spills = family.sketched or (
            place not in self.cells and self.opened(event.counter, slot) >= family.cells_max
        )
        if spills:
            place = (self.number, self.rest(event.counter), "", window, slot)
        cell = self.cells.setdefault(place, [0, 0, 0])
        if not counts:
            cell[2] += 1
            return
        cell[0 if event.delta > 0 else 1] += abs(event.delta)
        if event.member is not None and event.delta > 0:
            self.members.add((place[1], place[2], event.at_ms // HOUR_MS * HOUR_MS, event.member))
        if spills:
            self.spill(event, region, slot)

    def spill(self, event: EventTruth, region: str, slot: int) -> None:
        age_ms = slot - event.at_ms
        size_ms = WINDOW_MS if age_ms <= 600_000 else HOUR_MS if age_ms <= 2 * DAY_MS else DAY_MS
        group = self.rest(event.counter).removesuffix(":")
        amount = Counter({(event.counter, event.delta > 0): abs(event.delta)})
        for where, window in ((region, event.at_ms // size_ms * size_ms), (region, 0), ("*", 0)):
            self.spilled[self.number, group, where, window, slot] += amount

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
    partition = Partition(number, records)
    cells = {place: (p, n, duplicates) for place, (p, n, duplicates) in partition.cells.items()}
    refused = {(number, *place[:2]) for place in partition.refused}
    buckets: dict[tuple[SketchPlace, int], tuple[int, int]] = {}
    heaviest = {}
    for place, amounts in partition.spilled.items():
        if place[3]:
            for (counter, is_added), amount in amounts.items():
                for bucket in buckets_of(counter):
                    p, n = buckets.get((place, bucket), (0, 0))
                    buckets[place, bucket] = (p + amount, n) if is_added else (p, n + amount)
        else:
            added = [(name, amount) for (name, is_added), amount in amounts.items() if is_added]
            heaviest[place] = sorted(added, key=lambda one: (-one[1], one[0]))[:SKETCH_KEYS]
    ledger = {slot_ms: astuple(found) for slot_ms, found in partition.ledger.items()}
    return Counted(cells, refused, registers_of(partition.members), buckets, heaviest, ledger)


def registers_of(members: set[tuple[str, str, int, str]]) -> dict[Register, int]:
    """The first bits of a member's hash choose a register, the zeros after them are its rank."""
    found: dict[Register, int] = {}
    for counter, region, hour, member in members:
        digits = f"{CityHash64(member.encode()):064b}"
        rest = digits[REGISTER_BITS:]
        place = (counter, region, hour, int(digits[:REGISTER_BITS], 2))
        found[place] = max(found.get(place, 0), len(rest) - len(rest.lstrip("0")) + 1)
    return found


def buckets_of(counter: str) -> list[int]:
    """One of each row: the hash is multiplied by the row's number, scattered, and scaled."""
    all_bits = 2**64 - 1
    found = []
    for row in range(SKETCH_ROWS):
        x = (row + 0x9E3779B97F4A7C15) & all_bits
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & all_bits
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & all_bits
        x = (x ^ (x >> 31)) | 1
        top = (CityHash64(counter.encode()) * x & all_bits) >> 32
        found.append(row * SKETCH_WIDTH + (top * SKETCH_WIDTH >> 32))
    return found
