"""The producer: increments in, frames to the log, receipts back."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from pipeline.amounts import amount
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, TallyError
from pipeline.once.columns import refusals
from pipeline.once.members import refusal
from pipeline.planning import hints
from pipeline.planning.following import PlanFollower
from pipeline.producer.batch import FIELDS
from pipeline.producer.buffer import Buffer
from pipeline.producer.checks import check_columns, check_increment
from pipeline.producer.client import Client
from pipeline.producer.delivery import Delivery
from pipeline.producer.packing import ROWS_AT_ONCE
from pipeline.producer.receipts import NotStoredError, Receipt, UnknownDeliveryError
from pipeline.producer.reporting import INTERVAL_S
from pipeline.rules import CountingRules
from schemas.addresses import KafkaAddress
from schemas.events import DELTA_DEFAULT, DELTA_MAX, ID_MAX_BYTES, MEMBER_MAX_BYTES, REGION_DEFAULT
from schemas.settings import load_settings
from schemas.times import AT_MAX_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from datetime import datetime
    from types import TracebackType

    from pipeline.clock import Clock
    from pipeline.producer.batch import Batch
    from pipeline.producer.checks import Columns
    from pipeline.producer.delivery import Unknown
    from pipeline.sharding import Strategy

log = logging.getLogger(__name__)

LINGER_S = 0.02
WAITING_ROWS_MAX = 200_000
DELIVERY_TIMEOUT_S = 60.0
DELIVERY_TIMEOUT_S_MIN = 0.1

_KNOWN_MAX = 100_000
_ROOM_POLL_S = 0.5
_FOLLOWER_STOP_S = 1.0
_END_TIMEOUT_S = 10.0


class Producer:
    """Sends increments to the log, from any number of threads.

    Increments of one cell without member and id become one; the rest is packed as it is. What is
    accepted is sent within `linger` seconds, and sooner if there is much. Delivery is idempotent
    and waits for all replicas. What Kafka has not confirmed after `delivery_timeout` seconds is
    unknown: it may be in the log or not, and is never sent again. `on_unknown` is told of it, in
    another thread, and must not block; without it, `flush` and leaving the context raise
    UnknownDeliveryError.

    At most about `waiting_max` increments wait to be packed, and 64 MiB wait for Kafka's word;
    beyond that, increments wait for room, or raise BufferFullError with `when_full="raise"`.

    `strategy` says which of its shards an increment of a hot counter goes to: docs/sharding.md.

    It has threads and locks: do not use it in signal handlers, nor in a forked child, where it is
    closed. One that was not closed is closed when the program ends, with a warning.
    """

    def __init__(
        self,
        kafka: str | KafkaAddress | None = None,
        *,
        strategy: Strategy = "random",
        linger: float = LINGER_S,
        waiting_max: int = WAITING_ROWS_MAX,
        when_full: Literal["wait", "raise"] = "wait",
        delivery_timeout: float = DELIVERY_TIMEOUT_S,
        on_unknown: Callable[[Unknown], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connects to `kafka`, or to TALLY_KAFKA. Blocks until it knows the partitions.

        TLS and the user are those of TALLY_KAFKA_SECURITY and its like, also for a `kafka` that is
        text; a KafkaAddress has its own.

        Raises TryAgainError when Kafka is away; OperatorError when it refuses the user, when nobody
        has made the log, or where it cannot be known to which partitions ids were sent before;
        BadInputError for arguments that make no sense.
        """
        if when_full not in {"wait", "raise"}:
            raise BadInputError(f"when_full is wait or raise, not {when_full!r}")
        if not (linger >= 0 and waiting_max >= 1 and delivery_timeout >= DELIVERY_TIMEOUT_S_MIN):
            raise BadInputError(
                "linger is at least 0, waiting_max at least 1, and delivery_timeout at least "
                f"{DELIVERY_TIMEOUT_S_MIN} seconds"
            )
        self._kafka = _address(kafka)
        self._clock = clock or SystemClock()
        self._now_ms = self._clock.now_ms
        self._linger_s = linger
        self._on_unknown = on_unknown
        self._known: set[str] = set()
        self._regions = {REGION_DEFAULT}

        self._buffer = Buffer(waiting_max, raises=when_full == "raise")
        self._given_up = False
        self._told_lock = threading.Lock()
        self._untold_unknown = 0
        self._told_not_stored = 0

        self._follower = PlanFollower(self._kafka, self._clock)
        self._follower.start()
        try:
            self._delivery = Delivery(
                lambda: Client(self._kafka, self._clock, delivery_timeout_s=delivery_timeout),
                lambda: self._follower.plan,
                strategy,
                self._tell_unknown,
                self._clock,
            )
        except BaseException:
            self._follower.stop()
            raise
        # Its first call looks for pandas, which cannot be imported any more at a program's end.
        pa.array([0])
        self._packer = threading.Thread(target=self._run, name="tally-producer", daemon=True)
        self._packer.start()
        _living.add(self)

    @property
    def rules(self) -> CountingRules:
        """The counting rules applied last, as far as the plan tells. Never blocks."""
        return self._follower.plan.rules or CountingRules()

    def increment(
        self,
        counter: str,
        delta: int = 1,
        *,
        member: str | None = None,
        region: str = REGION_DEFAULT,
        at: int | str | datetime | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> Receipt:
        """Accept one increment, to be sent soon; without `at` it happens now.

        Raises BadInputError for what the pipeline would refuse. When there is no room it waits, or
        raises BufferFullError.
        """
        # What is plainly right is seen here, in a fraction of the time; the model has the last say.
        # The defaults are seen by what they are, not by how they compare.
        if at is None:
            at = self._now_ms()
            is_plain = True
        else:
            is_plain = type(at) is int and 0 <= at <= AT_MAX_MS
        if not (
            is_plain
            and type(counter) is str
            and counter in self._known
            and (
                delta is DELTA_DEFAULT
                or (type(delta) is int and -DELTA_MAX <= delta <= DELTA_MAX and delta)
            )
            and (region is REGION_DEFAULT or (type(region) is str and region in self._regions))
            and (
                member is None
                or (
                    type(member) is str
                    and member.isascii()
                    and 0 < len(member) <= MEMBER_MAX_BYTES
                    and "\0" not in member
                )
            )
            and (
                id is None
                or (
                    type(id) is str
                    and id.isascii()
                    and 0 < len(id) <= ID_MAX_BYTES
                    and "\0" not in id
                )
            )
        ):
            fields = {"counter": counter, "delta": delta, "at": at, "member": member}
            event = check_increment({**fields, "region": region, "id": id})
            counter, delta, at = event.counter, event.delta, event.at
            member, region, id = event.member, event.region, event.id  # noqa: A001
            self._learn(counter, region)
        rules = self._follower.plan.rules
        if rules is not None and rules.has_once_per_member:
            family = rules.of(counter)
            if family.once_per_member and (why := refusal(family, delta, member)) is not None:
                raise BadInputError(why)
        buffer = self._buffer
        with buffer.lock:
            batch = buffer.open
            number = batch.first + len(batch.fields) // FIELDS
            if number >= buffer.rows_max or buffer.is_closed:
                buffer.wait_for_room()
                batch = buffer.open
                number = batch.rows
            batch.fields += (counter, delta, at, member, region, id)
            if buffer.is_asleep or number + 1 == buffer.batch_rows:
                buffer.tell()
        return Receipt(batch.outcome, number, number + 1)

    def increment_many(self, columns: Columns, *, check_rules: bool = True) -> Receipt:
        """Accept many increments at once: equally long columns by an event's fields.

        Columns are lists, NumPy or Arrow arrays, in a mapping or an Arrow table; all but `counter`
        may be left out, and a null is the same as leaving out. Raises BadInputError that names the
        first bad rows, and then takes none. When there is no room it waits, piece by piece, or
        raises BufferFullError and takes none. Without `check_rules`, what only the family's rules
        refuse is taken, and becomes dead letters when it is counted.
        """
        tables = check_columns(columns, self._now_ms(), ROWS_AT_ONCE)
        if check_rules and (bad := self._refusals(tables)):
            row, why = bad[0]
            more = f"; and {len(bad) - 1} more rows" if bad[1:] else ""
            raise BadInputError(f"row {row}: {why}{more}")
        return self._buffer.add(tables)

    def _refusals(self, tables: list[pa.Table]) -> list[tuple[int, str]]:
        starts = range(0, len(tables) * ROWS_AT_ONCE, ROWS_AT_ONCE)
        return [
            (start + row, why)
            for start, table in zip(starts, tables, strict=True)
            for row, why in self.refusals(table)
        ]

    def refusals(self, columns: pa.Table) -> list[tuple[int, str]]:
        """Which rows (FRAME_SCHEMA) their families' rules would refuse, and why. Never blocks."""
        return refusals(self._follower.plan.rules, columns)

    def hint(
        self,
        counter: str,
        *,
        n: int | None = None,
        expect: float | None = None,
        for_ms: int = hints.DAY_MS,
    ) -> None:
        """Ask for at least `n` shards for a counter, or as many as `expect` increments a second
        need, before a celebrity's post. All producers follow within seconds, for a day.

        Blocks; raises BadInputError, or TryAgainError when Kafka is away.
        """
        hints.hint(self._kafka, counter, n=n, expect=expect, for_ms=for_ms)

    @property
    def waiting(self) -> int:
        """How many increments wait to be packed."""
        return self._buffer.open.rows

    def has_room(self, timeout: float = 0) -> bool:
        """Whether an increment would be accepted, or refused, at once; waits so long for that."""
        return self._buffer.has_room(timeout)

    def at_once(self) -> AbstractContextManager[None]:
        """Within it, in this thread, increments raise BufferFullError where they would wait."""
        return self._buffer.at_once()

    @property
    def waits(self) -> bool:
        """Whether increments wait for room elsewhere; see `when_full`."""
        return not self._buffer.raises

    @property
    def stored(self) -> int:
        """How many increments Kafka has confirmed."""
        return self._delivery.stored

    @property
    def not_stored(self) -> int:
        """How many increments were accepted but never sent."""
        return self._delivery.not_stored

    @property
    def unknown(self) -> int:
        """How many increments Kafka did not confirm in time."""
        return self._delivery.unknown

    def flush(self, timeout: float | None = None) -> bool:
        """Send what waits, and wait until all is known of everything accepted before.

        Blocks up to `timeout` seconds; whether all is known by then. Raises UnknownDeliveryError if
        increments have become unknown since it was last raised, and there is no `on_unknown`;
        NotStoredError if some were never sent. Each is told once, to one of those who flush.
        """
        deadline_s = None if timeout is None else self._clock.monotonic_s() + timeout
        settled = all(self._settles(batch, deadline_s) for batch in self._buffer.hurry())
        with self._told_lock:
            unknown, self._untold_unknown = self._untold_unknown, 0
            not_stored = self._delivery.not_stored - self._told_not_stored
            self._told_not_stored += not_stored
        if unknown:
            raise UnknownDeliveryError(
                f"{amount(unknown, 'increment', 'were')} not confirmed: Kafka may have them or "
                "not; give increments an id before sending them again, so that each is counted once"
                + (f"; {not_stored} more never sent" if not_stored else "")
            )
        if not_stored:
            raise NotStoredError(f"{amount(not_stored, 'increment')} never sent and not stored")
        return settled

    def close(self, timeout: float | None = None) -> None:
        """Accept nothing more, flush, and end. May be repeated.

        What was sent and is not confirmed within `timeout` seconds is unknown. Raises
        UnknownDeliveryError or NotStoredError as `flush` does.
        """
        self._buffer.close()
        try:
            self.flush(timeout)
        finally:
            self._given_up = True
            self._delivery.give_up()
            self._packer.join()
            self._delivery.close()
            self._follower.stop(_FOLLOWER_STOP_S)
            _living.discard(self)
        self.flush(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except (UnknownDeliveryError, NotStoredError):
            if error is None:
                raise
            log.exception("increments were not confirmed")

    def _learn(self, counter: str, region: str) -> None:
        """Remember texts that are right. Their sets are replaced when they have grown too large."""
        if len(self._known) >= _KNOWN_MAX:
            self._known = set()
        if len(self._regions) >= _KNOWN_MAX:
            self._regions = {REGION_DEFAULT}
        self._known.add(counter)
        self._regions.add(region)

    def _settles(self, batch: Batch, deadline_s: float | None) -> bool:
        left_s = None if deadline_s is None else max(0.0, deadline_s - self._clock.monotonic_s())
        return batch.outcome.wait_until_settled(left_s)

    def _tell_unknown(self, unknown: Unknown) -> None:
        # The client's thread waits for nobody: what it tells of is what others wait for.
        self._buffer.never_wait_here()
        if self._on_unknown is None:
            with self._told_lock:
                self._untold_unknown += unknown.increments
            return
        try:
            self._on_unknown(unknown)
        except BaseException:
            log.exception("on_unknown failed")

    def _run(self) -> None:
        """What the packing thread does."""
        while (batch := self._next_batch()) is not None:
            if batch.rows and self._given_up:
                self._delivery.refuse(batch, "the producer was closed")
            elif batch.rows:
                self._delivery.send(batch)
            self._delivery.report()

    def _next_batch(self) -> Batch | None:
        """The next one to send, possibly empty; None when it is closed and all is taken."""
        self._buffer.wait_until_due(INTERVAL_S, self._linger_s)
        while not (self._delivery.wait_for_room(_ROOM_POLL_S) or self._given_up):
            self._delivery.report()
        return self._buffer.take()

    def _end(self) -> None:
        """The program ends, and nobody has closed this."""
        log.warning("a Producer was not closed; waiting for Kafka's word on what it accepted")
        try:
            self.close(_END_TIMEOUT_S)
        except TallyError as error:
            log.warning("%s", error)

    def _leave_to_parent(self) -> None:
        """This is a forked child: it has neither the threads nor the connections."""
        self._buffer = Buffer(1, raises=True)
        self._buffer.is_closed = True
        self._buffer.why_closed = "the producer belongs to the process that made it; make a new one"


def _address(kafka: str | KafkaAddress | None) -> KafkaAddress:
    if isinstance(kafka, KafkaAddress):
        return kafka
    known = load_settings().kafka
    return KafkaAddress(kafka, known.security) if kafka else known


_living: weakref.WeakSet[Producer] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for producer in list(_living):
        producer._end()


def _leave_all() -> None:
    for producer in list(_living):
        producer._leave_to_parent()
    _living.clear()


os.register_at_fork(after_in_child=_leave_all)
