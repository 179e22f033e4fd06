"""The token file while a server runs: read again when it changed."""

import logging
from pathlib import Path

from pipeline.access.granting import known_of
from pipeline.access.tokens import Known
from pipeline.clock import Clock
from pipeline.errors import OperatorError
from schemas.tokens import load_tokens

CHECK_EVERY_S = 1.0

log = logging.getLogger(__name__)

_State = tuple[int, int, int] | None


class TokenFile:
    """The tokens of a file, as it is now or was at most CHECK_EVERY_S seconds ago.

    A mistake in a changed file, or its absence, is logged once and leaves the tokens as they were:
    a slip of the pen must not lock everybody out. An empty file does.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Reads the disk; raises OperatorError with file, line and field of a mistake."""
        self._path = path
        self._clock = clock
        self._state = _state(path)
        self._checked_s = clock.monotonic_s()
        self._known = known_of(load_tokens(path))

    def known(self) -> tuple[Known, ...]:
        """All tokens, expired ones too. Asks the disk at most once in CHECK_EVERY_S."""
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s >= CHECK_EVERY_S:
            self._checked_s = now_s
            self._read_if_changed()
        return self._known

    def _read_if_changed(self) -> None:
        # Asked before reading, so that a change in between is seen the next time.
        state = _state(self._path)
        if state == self._state:
            return
        self._state = state
        try:
            self._known = known_of(load_tokens(self._path))
        except OperatorError as error:
            log.warning("%s; the tokens stay as they were", error)
        else:
            log.info("%s was read again: %d tokens", self._path, len(self._known))


def _state(path: Path) -> _State:
    """What changes with the file; None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
