"""Seeded events as messages for the log, and what their counts must be. Knows nothing of Tally."""

import io
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field

import pyarrow as pa

PARTITIONS = 8
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
FRAME_HEADERS = {"content-type": "application/vnd.apache.arrow.stream"}

Window = tuple[str, str, int]
"""Counter, region, and the window's start in seconds."""


@dataclass(frozen=True, slots=True)
class Event:
    """One good increment."""

    counter: str
    delta: int
    at: int
    region: str
    member: str
    id: str | None
    is_late: bool = False

    def document(self) -> dict[str, object]:
        """As JSON has it: the id is there only if there is one."""
        fields: dict[str, object] = {
            name: getattr(self, name) for name in ("counter", "delta", "at", "region", "member")
        }
        return fields if self.id is None else {**fields, "id": self.id}


@dataclass(frozen=True, slots=True)
class Message:
    """One record for a partition: the events that must be counted, the rows that must not."""

    partition: int
    value: bytes
    events: list[Event]
    bad_rows: list[int]
    is_frame: bool


@dataclass(slots=True)
class Truth:
    """Adds events up in the plainest way there is."""

    windows: dict[Window, int] = field(default_factory=lambda: defaultdict(int))
    ids: set[tuple[str, str]] = field(default_factory=set)
    duplicates: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    members: dict[Window, set[str]] = field(default_factory=lambda: defaultdict(set))
    sketched: dict[tuple[Window, bool], int] = field(default_factory=lambda: defaultdict(int))
    """Additions (true) and removals apart, those that come late in the first minute of an hour."""

    def add(self, event: Event) -> None:
        """Count an event, unless its id was counted before."""
        if event.id is not None:
            if (event.counter, event.id) in self.ids:
                self.duplicates[event.counter] += 1
                return
            self.ids.add((event.counter, event.id))
        window_s = event.at // MINUTE_MS * 60
        self.windows[event.counter, event.region, window_s] += event.delta
        start_s = event.at // HOUR_MS * 3600 if event.is_late else window_s
        self.sketched[(event.counter, event.region, start_s), event.delta > 0] += abs(event.delta)
        if event.delta > 0:
            self.members[event.counter, event.region, window_s].add(event.member)

    def totals(self) -> dict[str, int]:
        """The sum of all windows and regions by counter."""
        sums: dict[str, int] = defaultdict(int)
        for (counter, _, _), count in self.windows.items():
            sums[counter] += count
        return dict(sums)


def frame(rows: list[dict[str, object]]) -> bytes:
    """Rows as an Arrow IPC stream, written by Arrow itself."""
    names = ("counter", "delta", "at", "region", "member", "id")
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    table = table.set_column(5, "id", table.column("id").cast(pa.string()))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class Messages:
    """An endless stream of messages of one family: skewed, with removals, late, double and bad."""

    def __init__(self, family: str, seed: int, *, keys: int = 40) -> None:
        self._family = family
        self._random = random.Random(seed)
        self._keys = keys
        self._with_id: list[tuple[int, Event]] = []
        self._partitions = list(range(PARTITIONS))

    def turn_to_other_partitions(self) -> None:
        """Send the next messages to two partitions only; at first they go to all."""
        self._partitions = self._random.sample(range(PARTITIONS), 2)

    def next(self, now_ms: int) -> Message:
        """A frame now and then, else one JSON event; every thirtieth or so is bad."""
        partition = self._random.choice(self._partitions)
        kind = self._random.random()
        if kind < 0.03:
            return Message(partition, self._bad(now_ms), [], [0], is_frame=False)
        if kind < 0.10 and self._with_id:
            # A producer that sends again keys by the id, so it reaches the same partition.
            partition, again = self._random.choice(self._with_id[-200:])
            value = json.dumps(again.document()).encode()
            return Message(partition, value, [again], [], is_frame=False)
        if kind < 0.20:
            return self._frame(partition, now_ms)
        event = self._event(partition, now_ms)
        value = json.dumps(event.document()).encode()
        return Message(partition, value, [event], [], is_frame=False)

    def _frame(self, partition: int, now_ms: int) -> Message:
        """Frames are now short, now long enough for the columnar path, now with a bad row."""
        events = [self._event(partition, now_ms) for _ in range(self._random.choice((3, 30, 150)))]
        rows = [event.document() for event in events]
        bad_rows = []
        if self._random.random() < 0.2:
            bad_rows = [self._random.randrange(len(rows) + 1)]
            rows.insert(bad_rows[0], {**rows[0], "id": None, "delta": 0})
        return Message(partition, frame(rows), events, bad_rows, is_frame=True)

    def _event(self, partition: int, now_ms: int) -> Event:
        chance = self._random
        key = int(chance.paretovariate(0.7)) % self._keys
        late_ms = chance.randrange(HOUR_MS, 20 * HOUR_MS) if chance.random() < 0.05 else 0
        event = Event(
            counter=f"{self._family}:key-{key}",
            delta=-chance.randint(1, 3) if chance.random() < 0.15 else chance.randint(1, 9),
            at=now_ms - late_ms - chance.randrange(5) * MINUTE_MS,
            region=chance.choice(("eu", "us", "")),
            member=f"m-{chance.randrange(50)}",
            id=f"{partition}-{chance.getrandbits(60):x}" if chance.random() < 0.2 else None,
            is_late=late_ms > 0,
        )
        if event.id is not None:
            self._with_id.append((partition, event))
        return event

    def _bad(self, now_ms: int) -> bytes:
        counter = f"{self._family}:key-0"
        choices: list[object] = [
            {"delta": 1},
            {"counter": counter, "delta": 0},
            {"counter": counter, "at": now_ms - 48 * HOUR_MS},
            {"counter": counter, "at": now_ms + HOUR_MS},
            [],
        ]
        return self._random.choice([*(json.dumps(choice).encode() for choice in choices), b"\xff"])
