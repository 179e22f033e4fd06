"""A line on stderr that says what is being copied and how much was: redrawn on a terminal."""

from types import TracebackType
from typing import Self, TextIO

from pipeline.backup.taking import Tell
from pipeline.clock import Clock

EVERY_S = 0.5
PRINT_EVERY_S = 5.0
"""Where a line cannot be redrawn: to a file or a pipe."""


class Steps(Tell):
    """Tells while its block lasts; silent if asked to be."""

    def __init__(self, stream: TextIO, clock: Clock, *, silent: bool) -> None:
        self._stream = stream
        self._clock = clock
        self._silent = silent
        self._redraws = stream.isatty()
        self._what = ""
        self._bytes = 0
        self._told_s = clock.monotonic_s()

    def step(self, what: str) -> None:
        self._what = what
        if self._redraws:
            self._tell()

    def copied(self, count: int) -> None:
        self._bytes += count
        every_s = EVERY_S if self._redraws else PRINT_EVERY_S
        if self._clock.monotonic_s() - self._told_s >= every_s:
            self._tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._redraws and not self._silent:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _tell(self) -> None:
        self._told_s = self._clock.monotonic_s()
        if self._silent:
            return
        line = f"tally: {self._what}: {self._bytes / 1e6:,.1f} MB copied"
        self._stream.write(f"\r\x1b[K{line}" if self._redraws else f"{line}\n")
        self._stream.flush()
