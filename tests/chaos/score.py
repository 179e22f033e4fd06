"""What became of the harms of a run, by kind."""

import threading
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum


class Fate(StrEnum):
    """What became of one harm."""

    DONE = "done"
    """It took effect amid the others."""

    LATE = "late"
    """It took effect once all was made well: a command that was on its way."""

    FAILED = "failed"
    """It was tried, and did not take effect."""

    SKIPPED = "skipped"
    """There was nothing to harm: the part was away, or a replay was on its way already."""


class Score:
    """How often each kind of harm met with which fate. Thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Fate]] = Counter()
        self._lock = threading.Lock()

    def note(self, kind: str, fate: Fate) -> None:
        with self._lock:
            self._counts[kind, fate] += 1

    def count(self, kind: str, fate: Fate = Fate.DONE) -> int:
        with self._lock:
            return self._counts[kind, fate]

    def undone(self, kinds: Iterable[str]) -> list[str]:
        """Those of them that were never done, sorted."""
        return sorted(kind for kind in set(kinds) if not self.count(kind))

    def __str__(self) -> str:
        with self._lock:
            counts = Counter(self._counts)
        kinds = sorted({kind for kind, _ in counts})
        sums = {fate: sum(counts[kind, fate] for kind in kinds) for fate in Fate}
        lines = [f"harms: {', '.join(f'{count} {fate}' for fate, count in sums.items())}"]
        return "\n".join([*lines, *(f"  {_line(kind, counts)}" for kind in kinds)])


def _line(kind: str, counts: Counter[tuple[str, Fate]]) -> str:
    met = [f"{counts[kind, fate]} {fate}" for fate in Fate if counts[kind, fate]]
    return f"{kind}: {', '.join(met)}"
