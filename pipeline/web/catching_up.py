"""How fast builds catch up with the log, from looks at how far they are behind. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE_OVER_S = 30.0


@dataclass(slots=True)
class CatchingUp:
    """Remembers looks for half a minute."""

    _seen: deque[tuple[float, dict[int, int]]] = field(default_factory=deque)

    def look(self, now_s: float, builds: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The builds, each with `left_s`: how long it will take to have no records behind.

        None where nobody knows, as for one that does not come nearer.
        """
        behind = {one["build"]: one["behind"] for one in builds}
        if not self._seen or self._seen[-1][1] != behind:
            self._seen.append((now_s, behind))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= RATE_OVER_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        return [{**one, "left_s": _left_s(one, before, now_s - then_s)} for one in builds]


def _left_s(build: dict[str, Any], before: dict[int, int], over_s: float) -> float | None:
    behind: int = build["behind"]
    nearer = before.get(build["build"], behind) - behind
    if not behind:
        return 0.0
    return round(behind * over_s / nearer, 1) if nearer > 0 and over_s > 0 else None
