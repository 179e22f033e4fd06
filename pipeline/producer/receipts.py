"""What became of increments: where the log has them, or that nobody can say. Thread-safe.

A batch is packed into frames, and each frame is stored whole or not. So the fate of an increment is
that of its frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from numpy.typing import NDArray

_PLACE = re.compile(r"([0-9]{1,6}):([0-9]{1,18})", re.ASCII)
_PLACES_MAX = 100_000


class UnknownDeliveryError(TryAgainError):
    """Kafka did not confirm increments in time: it may have them or not.

    They were not sent again. Whoever sends them again risks counting them twice, unless they have
    ids.
    """


class NotStoredError(TryAgainError):
    """Increments that were never sent, so that they are certainly not in the log."""


class Places(dict[int, int]):
    """The last offset in each partition that increments were stored at.

    As text it is `partition:offset`, with commas between, for answers and command lines.
    """

    def __str__(self) -> str:
        return ",".join(f"{partition}:{offset}" for partition, offset in sorted(self.items()))

    @classmethod
    def parse(cls, text: str) -> Places:
        """Raises BadInputError for what is no receipt."""
        found = [_PLACE.fullmatch(part) for part in text.split(",", _PLACES_MAX)]
        if any(match is None for match in found):
            raise BadInputError("not a receipt; expected partition:offset, or several with commas")
        places = cls()
        places.add((int(match[1]), int(match[2])) for match in found if match)
        return places

    def add(self, places: Iterable[tuple[int, int]]) -> None:
        """Take in more of them."""
        for partition, offset in places:
            self[partition] = max(offset, self.get(partition, -1))


class Outcome:
    """Of one batch: what is known of each of its frames."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frame_of_row: NDArray[np.int64] | None = None
        self._places: dict[int, tuple[int, int]] = {}
        self._errors: dict[int, TryAgainError] = {}
        self._frames = 0
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_settled(self) -> bool:
        """Whether all is known of all rows."""
        settled = len(self._places) + len(self._errors)
        return self._frame_of_row is not None and settled == self._frames

    def packed(self, frame_of_row: NDArray[np.int64], frames: int) -> None:
        """The batch was packed into so many frames; row i is in frame `frame_of_row[i]`."""
        with self._changed:
            self._frame_of_row = frame_of_row
            self._frames = frames

    def stored(self, frame: int, partition: int, offset: int) -> None:
        """The log has a frame."""
        with self._changed:
            self._places[frame] = (partition, offset)
            self._tell()

    def failed(self, frame: int, error: TryAgainError) -> None:
        """A frame was not sent, or nobody knows whether the log has it."""
        with self._changed:
            self._errors[frame] = error
            self._tell()

    def refused(self, rows: int, error: TryAgainError) -> None:
        """Nothing of the batch will be sent."""
        self.packed(np.zeros(rows, np.int64), 1)
        self.failed(0, error)

    def knows(self, first: int, end: int) -> bool:
        """Whether all is known of the rows from `first` up to `end`."""
        if self._frame_of_row is None:
            return False
        return self.is_settled or all(
            frame in self._places or frame in self._errors for frame in self._of(first, end)
        )

    def wait(self, first: int, end: int, timeout_s: float | None) -> bool:
        """Blocks until all is known of rows; False if it is not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.knows(first, end), timeout_s)

    def wait_until_settled(self, timeout_s: float | None) -> bool:
        """Blocks until all is known of all rows; False if it is not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_settled, timeout_s)

    def places(self, first: int, end: int) -> Places:
        """Where settled rows are. Raises UnknownDeliveryError, or NotStoredError."""
        places = Places()
        for frame in self._of(first, end):
            if frame in self._errors:
                raise self._errors[frame]
            places.add([self._places[frame]])
        return places

    def when_known(self, first: int, end: int, callback: Callable[[], None]) -> None:
        """Call back, from any thread, once or more often, when all is known of rows."""

        def told() -> None:
            if self.knows(first, end):
                callback()

        with self._changed:
            self._callbacks.append(told)
            told()

    def _tell(self) -> None:
        self._changed.notify_all()
        for callback in self._callbacks:
            callback()

    def _of(self, first: int, end: int) -> list[int]:
        """The frames of rows."""
        if self._frame_of_row is None:
            return []
        frames: list[int] = np.unique(self._frame_of_row[first:end]).tolist()
        return frames


class Receipt:
    """For increments that were accepted: tells where the log has them, once it is known.

    `await` it, or ask for its `places`. A reader who waits until counts are past these places sees
    the increments in them.
    """

    __slots__ = ("_end", "_first", "_outcome", "_rest")

    def __init__(
        self, outcome: Outcome, first: int, end: int, rest: tuple[Receipt, ...] = ()
    ) -> None:
        self._outcome = outcome
        self._first = first
        self._end = end
        self._rest = rest

    @classmethod
    def of(cls, receipts: Sequence[Receipt]) -> Receipt:
        """One for all of them; none of them has others in it."""
        if not receipts:
            return cls(_NOTHING, 0, 0)
        first, *rest = receipts
        return cls(first._outcome, first._first, first._end, tuple(rest))

    @property
    def is_settled(self) -> bool:
        """Whether `places` would answer, or raise, at once."""
        return self._outcome.knows(self._first, self._end) and all(
            receipt.is_settled for receipt in self._rest
        )

    def places(self, timeout: float | None = None) -> Places:
        """The last offset by partition; blocks until it is known.

        Raises UnknownDeliveryError when Kafka did not confirm, NotStoredError when it was never
        sent, TimeoutError when neither is known after `timeout` seconds (for each batch of them).
        """
        if not self._outcome.wait(self._first, self._end, timeout):
            raise TimeoutError("Kafka has not confirmed yet; the receipt can be asked again")
        places = self._outcome.places(self._first, self._end)
        for receipt in self._rest:
            places.add(receipt.places(timeout).items())
        return places

    def __await__(self) -> Generator[object, None, Places]:
        loop = asyncio.get_running_loop()
        for receipt in (self, *self._rest):
            known = loop.create_future()
            receipt._when_known(partial(_tell, loop, known))
            yield from known
        return self.places(timeout=0)

    def _when_known(self, callback: Callable[[], None]) -> None:
        self._outcome.when_known(self._first, self._end, callback)


_NOTHING = Outcome()
_NOTHING.packed(np.zeros(0, np.int64), 0)


def _tell(loop: asyncio.AbstractEventLoop, known: asyncio.Future[None]) -> None:
    """Wake whoever awaits, from another thread. One who has gone is not missed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, known)


def _settle(known: asyncio.Future[None]) -> None:
    if not known.done():
        known.set_result(None)
