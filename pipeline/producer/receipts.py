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
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
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

    @classmethod
    def because(cls, reason: str) -> Self:
        """Of what one frame or line holds."""
        return cls(
            f"not confirmed: Kafka may have it or not ({reason}); "
            "with an id it is safe to send it again"
        )


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
        """Raises BadInputError for what is no receipt. An empty one is of no increments."""
        if not text:
            return cls()
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
        self._frames = 0
        self._frame_of_row: NDArray[np.int64] | None = None
        self._places: dict[int, tuple[int, int]] = {}
        self._errors: dict[int, TryAgainError] = {}
        self._unpacked: list[_Waiter] = []
        self._waiters: dict[int, list[_Waiter]] = {}

    @property
    def is_settled(self) -> bool:
        """Whether all is known of all rows."""
        settled = len(self._places) + len(self._errors)
        return self._frame_of_row is not None and settled == self._frames

    def packed(self, frame_of_row: NDArray[np.int64], frames: int) -> None:
        """The batch was packed into so many frames; row i is in frame `frame_of_row[i]`."""
        with self._changed:
            # In this order, since whoever asks does not wait for the lock.
            self._frames = frames
            self._frame_of_row = frame_of_row
            waiters, self._unpacked = self._unpacked, []
            for waiter in waiters:
                self._wake_or_keep(waiter)

    def stored(self, frame: int, partition: int, offset: int) -> None:
        """The log has a frame."""
        with self._changed:
            self._places[frame] = (partition, offset)
            self._tell(frame)

    def failed(self, frame: int, error: TryAgainError) -> None:
        """A frame was not sent, or nobody knows whether the log has it."""
        with self._changed:
            self._errors[frame] = error
            self._tell(frame)

    def refused(self, rows: int, error: TryAgainError) -> None:
        """Nothing of the batch will be sent."""
        self.packed(np.zeros(rows, np.int64), 1)
        self.failed(0, error)

    def knows(self, first: int, end: int) -> bool:
        """Whether all is known of the rows from `first` up to `end`."""
        if self._frame_of_row is None:
            return False
        return self.is_settled or self._open_frame(first, end) is None

    def wait(self, first: int, end: int, timeout_s: float | None) -> bool:
        """Blocks until all is known of rows; False if it is not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.knows(first, end), timeout_s)

    def wait_until_settled(self, timeout_s: float | None) -> bool:
        """Blocks until all is known of all rows; False if it is not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_settled, timeout_s)

    def places(self, first: int, end: int) -> Places:
        """Where settled rows are.

        Raises NotStoredError if none of them was sent, and UnknownDeliveryError if that is not
        known of some, or true of some only.
        """
        places, errors = Places(), []
        for frame in self._of(first, end):
            if frame in self._errors:
                errors.append(self._errors[frame])
            else:
                places.add([self._places[frame]])
        if not errors:
            return places
        unknown = [error for error in errors if isinstance(error, UnknownDeliveryError)]
        # A new one each time: an error that is raised again and again keeps who caught it.
        if places and not unknown:
            raise UnknownDeliveryError(f"a part of it is stored, a part is not ({errors[0]})")
        told = (unknown or errors)[0]
        raise type(told)(*told.args)

    def when_known(self, first: int, end: int, callback: Callable[[], None]) -> None:
        """Call back once, from any thread, when all is known of rows."""
        with self._changed:
            self._wake_or_keep(_Waiter(first, end, callback))

    def _tell(self, frame: int) -> None:
        self._changed.notify_all()
        for waiter in self._waiters.pop(frame, ()):
            self._wake_or_keep(waiter)

    def _wake_or_keep(self, waiter: _Waiter) -> None:
        """A waiter is kept with one frame at a time that it waits for, so few are looked at."""
        if self._frame_of_row is None:
            self._unpacked.append(waiter)
            return
        frame = self._open_frame(waiter.first, waiter.end)
        if frame is None:
            waiter.callback()
        else:
            self._waiters.setdefault(frame, []).append(waiter)

    def _open_frame(self, first: int, end: int) -> int | None:
        """A frame of these rows of which nothing is known yet."""
        for frame in self._of(first, end):
            if frame not in self._places and frame not in self._errors:
                return frame
        return None

    def _of(self, first: int, end: int) -> list[int]:
        """The frames of rows."""
        if self._frame_of_row is None:
            return []
        frames: list[int] = np.unique(self._frame_of_row[first:end]).tolist()
        return frames


class _Waiter(NamedTuple):
    """Who wants to be told when all is known of rows."""

    first: int
    end: int
    callback: Callable[[], None]


class Receipt(msgspec.Struct, gc=False, eq=False):
    """For increments that were accepted: tells where the log has them, once it is known.

    `await` it, or ask for its `places`. A reader who waits until counts are past these places sees
    the increments in them. Every increment gets one, and a struct is made without running Python.
    """

    _outcome: Outcome
    _first: int
    _end: int
    _rest: tuple[Receipt, ...] = ()

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

        Raises UnknownDeliveryError when Kafka did not confirm all of it, NotStoredError when none
        of it was ever sent, TimeoutError when that is not known after `timeout` seconds (for each
        batch of them).
        """
        places, errors = Places(), []
        for receipt in (self, *self._rest):
            if not receipt._outcome.wait(receipt._first, receipt._end, timeout):
                raise TimeoutError("Kafka has not confirmed yet; the receipt can be asked again")
            try:
                places.add(receipt._outcome.places(receipt._first, receipt._end).items())
            except TryAgainError as error:
                errors.append(error)
        if errors and places and all(isinstance(error, NotStoredError) for error in errors):
            raise UnknownDeliveryError(f"a part of it is stored, a part is not ({errors[0]})")
        if errors:
            raise min(errors, key=lambda one: isinstance(one, NotStoredError))
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
