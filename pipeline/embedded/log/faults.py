"""Named moments at which a test makes the process die, as a power cut in the worst place would.

`TALLY_LOG_FAULT=NAME[:COUNT]` ends the process with exit code 137 at the COUNTth passage of NAME.
"""

import os

NAMES = frozenset({"before-write", "mid-batch", "after-write", "compaction-swap", "segment-roll"})
EXIT_CODE = 137


class FaultPoint:
    """Counts passages of one named moment; without the variable every call is a no-op."""

    def __init__(self, setting: str) -> None:
        """Raises ValueError for a name that does not exist: a typo must not pass for a test."""
        self.name, _, count = setting.partition(":")
        if self.name and self.name not in NAMES:
            raise ValueError(f"TALLY_LOG_FAULT names no fault point: {self.name}")
        self._left = int(count or 1)

    def due(self, name: str) -> bool:
        """True when this passage of `name` is the one to die at."""
        if name != self.name:
            return False
        self._left -= 1
        return self._left == 0

    def pass_by(self, name: str) -> None:
        """Does not return when this passage of `name` is the one to die at."""
        if self.due(name):
            die()


def die() -> None:
    """Ends the process at once: no buffers are flushed, no handlers run."""
    os._exit(EXIT_CODE)


POINT = FaultPoint(os.environ.get("TALLY_LOG_FAULT", ""))
