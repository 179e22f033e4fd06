"""What the log itself has in each slot: read whole, decoded as workers do, summed in columns."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from pipeline import topics
from pipeline.decode import decode
from pipeline.groupless import UNTOLD, groupless_consumer, read_ranges
from pipeline.ledger import Entry, log_times
from pipeline.reconcile.compared import Difference
from pipeline.reconcile.log_places import AS_WORKERS_READ
from pipeline.slots import SLOT_MS
from pipeline.tail.reader import as_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from confluent_kafka import Message

    from schemas.addresses import KafkaAddress
    from schemas.records import Records

MESSAGES_AT_ONCE = 2_000
BYTES_AT_ONCE = 16 << 20
"""How much is held before it is decoded: many small records, or a few large frames."""

DECODED = ("rows", "added", "taken")
COMPARED = ("records", *DECODED)


class LogSlots:
    """Sums what one shard's log has, record after record. Pure."""

    def __init__(self, slot_ms: int) -> None:
        """`slot_ms` is the slot in which the first record may be, or any before it."""
        self.slots: dict[int, Entry] = {}
        self.untold: set[int] = set()
        """Slots with a record that workers can read, and this reader cannot."""
        self._log_ms = slot_ms

    def add(self, records: Records) -> None:
        """Take the records that come next."""
        log_ms = log_times(records.timestamps_ms, self._log_ms)
        self._log_ms = int(log_ms[-1])
        columns = decode(records).columns
        row_ms = log_ms[np.searchsorted(records.offsets, columns["offset"].to_numpy())]
        delta = columns["delta"].to_numpy()
        for slot in np.unique(log_ms // SLOT_MS).tolist():
            entry = self.slots.setdefault(slot * SLOT_MS, Entry())
            inside = np.flatnonzero(log_ms // SLOT_MS == slot)
            # As Python's numbers where that could be more than 64 bits hold.
            kept = delta[row_ms // SLOT_MS == slot].astype(
                object if len(delta) > 2**22 else np.int64
            )
            entry.records += len(inside)
            entry.through = int(records.offsets[inside[-1]])
            entry.rows += len(kept)
            entry.added += int(kept[kept > 0].sum())
            entry.taken -= int(kept[kept < 0].sum())
            if any(records.headers[at] is UNTOLD for at in inside.tolist()):
                self.untold.add(slot * SLOT_MS)


def read_log(
    kafka: KafkaAddress,
    ranges: Mapping[int, tuple[int, int]],
    slots_ms: Mapping[int, int],
    on_progress: Callable[[int], None],
) -> dict[int, LogSlots]:
    """What the log has in ranges of offsets, by shard. Blocks; raises TryAgainError.

    `slots_ms` says in which slot the first record of a shard is, at the earliest. `on_progress` is
    told how many records were read.
    """
    found = {shard: LogSlots(slots_ms.get(shard, 0)) for shard in ranges}
    with closing(groupless_consumer(kafka, AS_WORKERS_READ)) as consumer:
        messages = (one for *_, one in read_ranges(consumer, topics.INCREMENTS, ranges))
        done = 0
        for part in _parts(messages):
            for records in as_records(part):
                found[records.partition].add(records)
            done += len(part)
            on_progress(done)
    return found


def log_differences(
    shard: int,
    ledger: Mapping[int, Entry],
    log: Mapping[int, Entry],
    offsets: tuple[int, int],
    untold: Set[int] = frozenset(),
) -> Iterator[Difference]:
    """Where a shard's ledger is not what the log has in a range of offsets; both by slot.

    Slots that are not wholly in the range are not compared, and those that are `untold` by their
    records alone.
    """
    start, end = offsets
    for slot_ms in sorted({*ledger, *log}):
        found, entry = log.get(slot_ms, Entry()), ledger.get(slot_ms)
        if entry is None:
            yield Difference(shard, slot_ms, "no entry in the ledger", log=found.records)
            continue
        if entry.first < start or entry.through >= end:
            continue
        for what in COMPARED:
            if what in DECODED and slot_ms in untold:
                continue
            must, has = getattr(found, what), getattr(entry, what)
            if must != has:
                yield Difference(shard, slot_ms, what, ledger=has, log=must)


def _parts(messages: Iterator[Message]) -> Iterator[list[Message]]:
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.value() or b"")
        if len(part) >= MESSAGES_AT_ONCE or size >= BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part
