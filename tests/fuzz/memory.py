"""How much memory this process takes on while something runs, whatever it held before."""

from __future__ import annotations

import resource
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_FORGET_THE_MOST = "5"
"""What Linux takes for: the most that was held is what is held now."""


class Growth:
    """The most that is held from here on, above what is held here. One at a time in a process.

    Linux forgets what was held before. Elsewhere, or where it may not be told to, the most that the
    process ever held is all there is to know, and growth below that is not seen.
    """

    def __init__(self) -> None:
        self.forgets = _forget_the_most()
        self._before_kb = self._most_kb()

    def kb(self) -> int:
        """So far."""
        return self._most_kb() - self._before_kb

    def _most_kb(self) -> int:
        if not self.forgets:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0])


def _forget_the_most() -> bool:
    """Whether it was forgotten."""
    try:
        _CLEAR.write_text(_FORGET_THE_MOST)
    except OSError:
        return False
    return True
