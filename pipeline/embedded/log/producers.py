"""What a partition remembers of idempotent producers, so that a retry is stored once.

Pure: the caller passes the time. The last five batches of a producer are kept, because clients have
at most five requests on the way.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.batch import (
    NO_PRODUCER,
    SEQUENCE_MODULUS,
    BatchHeader,
    RejectedBatchError,
)

BATCHES_KEPT = 5
PRODUCERS_MAX = 20_000
EXPIRY_MS = 24 * 3600 * 1000


class Stored(NamedTuple):
    """One batch already in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class _Producer:
    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[Stored] = deque(maxlen=BATCHES_KEPT)
        self.seen_ms = 0


# One producer as it is kept in a file: id, epoch, last seen, its batches.
Snapshot = list[tuple[int, int, int, list[Stored]]]


class ProducerTable:
    """Sequence numbers of one partition. Bounded: by expiry, and by PRODUCERS_MAX, oldest first."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def ids(self) -> Iterable[int]:
        """The producers that are remembered."""
        return self._producers.keys()

    def check(self, header: BatchHeader) -> Stored | None:
        """The stored batch that this one repeats, or None when it is the next; raises
        RejectedBatchError.
        """
        if header.producer_id == NO_PRODUCER:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            # Forgotten, or never met: the first batch sets the pace.
            return None
        if header.producer_epoch < producer.epoch:
            raise RejectedBatchError(ErrorCode.invalid_producer_epoch, "an older producer epoch")
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise RejectedBatchError(
                    ErrorCode.out_of_order_sequence_number, "a new epoch starts at sequence 0"
                )
            return None
        for stored in producer.batches:
            if (stored.first_sequence, stored.last_sequence) == (
                header.base_sequence,
                header.last_sequence,
            ):
                return stored
        expected = (producer.batches[-1].last_sequence + 1) % SEQUENCE_MODULUS
        if header.base_sequence != expected:
            raise RejectedBatchError(
                ErrorCode.out_of_order_sequence_number,
                f"sequence {header.base_sequence} where {expected} is next",
            )
        return None

    def store(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Remember a batch that is in the log now."""
        if header.producer_id == NO_PRODUCER:
            return
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = _Producer(header.producer_epoch)
        # Popped and put back, so that the dictionary's order is the order of use.
        self._producers[header.producer_id] = producer
        producer.seen_ms = now_ms
        producer.batches.append(
            Stored(header.base_sequence, header.last_sequence, base_offset, timestamp_ms)
        )
        if len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def forget(self) -> None:
        """Forget all of them: who comes next sets the pace."""
        self._producers.clear()

    def expire(self, now_ms: int) -> None:
        """Forget producers that were silent for a day."""
        limit_ms = now_ms - EXPIRY_MS
        for producer_id in [p for p, s in self._producers.items() if s.seen_ms < limit_ms]:
            del self._producers[producer_id]

    def snapshot(self) -> Snapshot:
        """All that `restore` needs, as plain values."""
        return [
            (producer_id, p.epoch, p.seen_ms, list(p.batches))
            for producer_id, p in self._producers.items()
        ]

    def restore(self, snapshot: Snapshot) -> None:
        """Replace what is remembered by what `snapshot` gave."""
        self._producers.clear()
        for producer_id, epoch, seen_ms, batches in snapshot:
            producer = _Producer(epoch)
            producer.seen_ms = seen_ms
            producer.batches.extend(batches)
            self._producers[producer_id] = producer
