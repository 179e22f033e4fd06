"""Increments that wait to be packed, and those who wait for room among them. Thread-safe."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.amounts import amount
from pipeline.errors import OperatorError, TryAgainError
from pipeline.producer.batch import Batch
from pipeline.producer.receipts import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

BATCH_ROWS = 20_000
"""So many are packed without waiting for more."""


class BufferFullError(TryAgainError):
    """As many increments wait as may, because Kafka is away or slow. This one was not taken."""


class Buffer:
    """The batch that is open, and those whose outcome is not known yet.

    `lock` guards `open`. Whoever adds to it directly calls `wait_for_room` before, and `tell` after
    it, with the lock held. One thread takes batches.
    """

    def __init__(self, rows_max: int, *, raises: bool) -> None:
        """At most about `rows_max` wait; beyond that, adding raises BufferFullError or waits."""
        self.lock = threading.Lock()
        self.open = Batch()
        self.rows_max = rows_max
        self.batch_rows = min(BATCH_ROWS, rows_max)
        self.is_closed = False
        self.is_asleep = False
        self.why_closed = "the producer is closed; make a new one"
        self.raises = raises
        # By thread, and gone with it: numbers of threads are given again to others.
        self._here = threading.local()
        self._adding = 0
        self._is_urgent = False
        self._came = threading.Condition(self.lock)
        self._room = threading.Condition(self.lock)
        self._taken: list[Batch] = []

    def never_wait_here(self) -> None:
        """In this thread, adding raises BufferFullError instead of waiting."""
        self._here.never_waits = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within it, in this thread, adding raises BufferFullError instead of waiting."""
        before = getattr(self._here, "never_waits", False)
        self._here.never_waits = True
        try:
            yield
        finally:
            self._here.never_waits = before

    def wait_for_room(self) -> None:
        """Returns with room in the open batch. Raises BufferFullError, or OperatorError if it is
        closed. The lock is held; it is let go while this waits."""
        while not self.is_closed and self.open.rows >= self.rows_max:
            self._wait()
        if self.is_closed:
            raise OperatorError(self.why_closed)

    def has_room(self, timeout_s: float) -> bool:
        """Blocks so long for room; whether an increment would be accepted, or refused, at once."""
        with self.lock:
            return self._room.wait_for(
                lambda: self.is_closed or self.open.rows < self.rows_max, timeout_s
            )

    def tell(self) -> None:
        """Wake whoever takes batches. The lock is held."""
        self._came.notify()

    def add(self, tables: list[pa.Table]) -> Receipt:
        """Add many. Waits for room before each table.

        Where it raises BufferFullError instead, it takes none, or all of them, beyond the bound,
        too. What has begun is finished, also if the buffer is closed meanwhile.
        """
        receipts: list[Receipt] = []
        with self.lock:
            self.wait_for_room()
            self._adding += 1
            try:
                for table in tables:
                    while receipts and not self._never_waits and self.open.rows >= self.rows_max:
                        self._wait()
                    receipts.append(self._add(table))
            finally:
                self._adding -= 1
                self.tell()
        return Receipt.of(receipts)

    def hurry(self) -> list[Batch]:
        """Have the open batch taken now; all batches whose outcome is not known yet."""
        with self.lock:
            self._is_urgent = True
            self.tell()
            return [*self._taken, self.open] if self.open.rows else list(self._taken)

    def close(self) -> None:
        """Begin to add nothing more. What waits is still taken."""
        with self.lock:
            self.is_closed = True
            self.tell()
            self._room.notify_all()

    def wait_until_due(self, idle_s: float, linger_s: float) -> None:
        """Blocks until the open batch is to be taken: full, urgent, or `linger_s` after it began.

        While nothing comes it returns after `idle_s`.
        """
        with self.lock:
            if not self.open.rows and not self._is_over():
                self.is_asleep = True
                self._came.wait(idle_s)
                self.is_asleep = False
            if self.open.rows:
                self._came.wait_for(self._is_due, linger_s)

    def take(self) -> Batch | None:
        """The open batch, possibly empty; None when it is closed and all is taken."""
        with self.lock:
            batch, self._is_urgent = self.open, False
            if not batch.rows:
                return None if self._is_over() else batch
            self.open = Batch()
            self._taken = [one for one in self._taken if not one.outcome.is_settled]
            self._taken.append(batch)
            self._room.notify_all()
        return batch

    def _add(self, table: pa.Table) -> Receipt:
        first = self.open.rows
        self.open.add(table)
        if self.is_asleep or self.open.rows >= self.batch_rows:
            self.tell()
        return Receipt(self.open.outcome, first, first + table.num_rows)

    @property
    def _never_waits(self) -> bool:
        """Whether adding raises instead of waiting, in this thread."""
        return self.raises or getattr(self._here, "never_waits", False)

    def _wait(self) -> None:
        if self._never_waits:
            raise BufferFullError(
                f"{amount(self.open.rows, 'increment')} waiting, since Kafka is away or slow; try "
                "later"
            )
        self._room.wait()

    def _is_due(self) -> bool:
        return self.open.rows >= self.batch_rows or self._is_urgent or self.is_closed

    def _is_over(self) -> bool:
        return self.is_closed and not self._adding
