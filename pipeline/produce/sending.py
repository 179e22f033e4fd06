"""Sends chunks one after the other, and knows up to where all is known of them."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipeline.interrupts import StoppedError
from pipeline.produce.checking import check
from pipeline.producer.receipts import NotStoredError, Places, UnknownDeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pipeline.clock import Clock
    from pipeline.interrupts import Wishes
    from pipeline.produce.checking import Checked, RefusedLine
    from pipeline.produce.progress import Progress
    from pipeline.produce.reading import Chunk
    from pipeline.producer.receipts import Receipt

IN_FLIGHT_CHUNKS_MAX = 8
_POLL_S = 0.2


class Sender(Protocol):
    """Sends checked lines, in one way or another."""

    @property
    def unknown(self) -> int:
        """How many lines Kafka did not confirm in time."""

    def send(self, checked: Checked) -> Receipt:
        """Blocks while too much waits for Kafka's word."""

    def close(self) -> None:
        """What is not confirmed by now is unknown. Blocks shortly. May be repeated."""


class _Sent(NamedTuple):
    chunk: Chunk
    rows: int
    refused: int
    receipt: Receipt


class Producing:
    """One run over a file. Not thread-safe.

    `progress` is up to where everything is known. `lost` are the bytes from the first to the last
    chunk of which something was not confirmed; nothing should be taken after that.
    """

    def __init__(
        self,
        progress: Progress,
        sender: Sender,
        clock: Clock,
        on_refused: Callable[[RefusedLine], None],
    ) -> None:
        self.progress = progress
        self.lost: tuple[int, int] | None = None
        self.taken_bytes = progress.offset
        self._sender = sender
        self._clock = clock
        self._on_refused = on_refused
        self._in_flight: deque[_Sent] = deque()
        self._places = Places.parse(progress.receipt) if progress.receipt else Places()

    @property
    def is_full(self) -> bool:
        """Whether something must settle before more is taken."""
        return len(self._in_flight) >= IN_FLIGHT_CHUNKS_MAX

    @property
    def unknown(self) -> int:
        """How many lines of this run may be in the log or not."""
        return self._sender.unknown

    @property
    def is_settled(self) -> bool:
        """Whether all is known of everything that was taken."""
        return not self._in_flight

    def take(self, chunk: Chunk) -> None:
        """Check and send a chunk. Blocks while too much waits for Kafka's word."""
        once = self.progress.fingerprint if self.progress.once else None
        checked = check(chunk, self._clock.now_ms(), once)
        for refused in checked.refused:
            self._on_refused(refused)
        receipt = self._sender.send(checked)
        self._in_flight.append(_Sent(chunk, len(checked.lines), len(checked.refused), receipt))
        self.taken_bytes = chunk.end

    def settle(self, timeout_s: float) -> None:
        """Take in what is known by now; wait so long for the first of what is not."""
        while self._in_flight and (timeout_s or self._in_flight[0].receipt.is_settled):
            sent = self._in_flight[0]
            try:
                self._places.add(sent.receipt.places(timeout_s).items())
            except TimeoutError:
                return
            except (UnknownDeliveryError, NotStoredError):
                self.lost = (self.lost or (sent.chunk.begin, 0))[0], sent.chunk.end
            self._in_flight.popleft()
            timeout_s = 0.0
            # What has ids may be sent again, so a run with `once` goes on before what was lost.
            if self.lost is None or not self.progress.once:
                self._account_for(sent)

    def give_up(self) -> None:
        """Wait no longer: what is not confirmed by now is unknown."""
        self._sender.close()

    def finish(self) -> None:
        """Tell what was lost for good from what was sent; once, when all is settled."""
        if self.lost and not self.progress.once:
            self.progress.sent -= self.unknown
            self.progress.unknown += self.unknown

    def _account_for(self, sent: _Sent) -> None:
        progress = self.progress
        progress.offset = sent.chunk.end
        progress.lines = sent.chunk.number + len(sent.chunk.lines) - 1
        progress.sent += sent.rows
        progress.refused += sent.refused
        progress.receipt = str(self._places)


def produce(
    chunks: Iterable[Chunk],
    producing: Producing,
    wishes: Wishes,
    on_progress: Callable[[], None],
) -> bool:
    """Send chunks until they end, something is lost, or somebody wants it to end; then settle.

    Whether everything was sent and confirmed. Blocks until all is known. `on_progress` is called
    now and then. Raises what reading raises, after all that was sent is settled.
    """
    try:
        return _send(chunks, producing, wishes, on_progress) and _settled(
            producing, wishes, on_progress
        )
    finally:
        _settled(producing, wishes, on_progress)
        producing.finish()


def _send(
    chunks: Iterable[Chunk],
    producing: Producing,
    wishes: Wishes,
    on_progress: Callable[[], None],
) -> bool:
    """Whether the end of the chunks was reached."""
    with contextlib.suppress(StoppedError):
        for chunk in chunks:
            producing.take(chunk)
            producing.settle(0)
            on_progress()
            while producing.is_full and not wishes.asked:
                producing.settle(_POLL_S)
                on_progress()
            if producing.lost or wishes.asked:
                return False
        return True
    return False


def _settled(producing: Producing, wishes: Wishes, on_progress: Callable[[], None]) -> bool:
    """Waits until all is known of what was taken; whether nothing was lost."""
    while not producing.is_settled:
        if wishes.hurried:
            producing.give_up()
        producing.settle(_POLL_S)
        on_progress()
    return not producing.lost
