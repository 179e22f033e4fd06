"""A gate that all writing statements go through, so that a moment can be had in which none runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterator


class WriteGate:
    """Any thread may use it. Reading statements need not."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing = 0
        self._is_shut = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """For one writing statement; blocks while the gate is shut."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_shut)
            self._writing += 1
        try:
            yield
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    @contextmanager
    def shut(self, patience_s: float) -> Iterator[None]:
        """Nobody writes inside; those who come wait outside, in front of it and before it.

        Blocks until those under way have ended; raises TryAgainError if that takes longer than
        `patience_s`, or if somebody else has it shut: for so long others may have to wait.
        """
        with self._changed:
            if self._is_shut:
                raise TryAgainError("ClickHouse is being copied already: try again")
            self._is_shut = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self._writing == 0, patience_s):
                    raise TryAgainError(
                        f"a statement writes to ClickHouse for more than {patience_s:g} s (a rollup"
                        " or a rebuild may): try again when it is done"
                    )
            yield
        finally:
            with self._changed:
                self._is_shut = False
                self._changed.notify_all()
