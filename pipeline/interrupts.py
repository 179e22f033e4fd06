"""Ctrl-C that ends a command in order, and a second one that ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from pipeline.clock import Clock

SECOND_SIGNAL_S = 0.5
"""Runners such as make pass on a Ctrl-C that the terminal also sent to us, so two at the same
moment are one."""


class StoppedError(Exception):
    """Somebody asked to end while the command was waiting for input."""


class Wishes(Protocol):
    """Whether somebody wants what is going on to end: in order, or at once."""

    @property
    def asked(self) -> bool: ...

    @property
    def hurried(self) -> bool: ...


class Interrupts:
    """While it is entered, SIGINT and SIGTERM are Wishes, and tear nothing apart.

    In the main thread only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_s: float | None = None
        self._hurried = False
        self._is_waiting = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether to end in order."""
        return self._asked_s is not None

    @property
    def hurried(self) -> bool:
        """Whether to end at once."""
        return self._hurried

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What is done inside may be cut short: raises StoppedError as soon as it is asked."""
        self._is_waiting = True
        try:
            if self.asked:
                raise StoppedError
            yield
        finally:
            self._is_waiting = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        now_s = self._clock.monotonic_s()
        if self._asked_s is None:
            self._asked_s = now_s
        elif now_s - self._asked_s >= SECOND_SIGNAL_S:
            self._hurried = True
        if self._is_waiting:
            raise StoppedError
