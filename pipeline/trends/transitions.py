"""Who entered and who left, as events for `tally.trends`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.trends.ranking import Ranking

_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Transition:
    """A counter began or ceased to trend with a window.

    `entered_ms` is the window it entered in. The last four are what it entered with; None when it
    leaves.
    """

    id: str
    transition: Literal["enter", "leave"]
    family: str
    region: str
    counter: str
    window_ms: int
    entered_ms: int
    kind: str | None = None
    observed: int | None = None
    expected: float | None = None
    score: float | None = None

    def to_bytes(self) -> bytes:
        """A JSON object; equal transitions have equal bytes."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")).encode()


def transition_id(transition: str, family: str, region: str, counter: str, window_ms: int) -> str:
    """The same for the same transition, whoever finds it: a second leader, a replay, any build."""
    what = json.dumps([transition, family, region, counter, window_ms]).encode()
    return blake2b(what, digest_size=_ID_BYTES).hexdigest()


def transitions(
    family: str, region: str, before: Mapping[str, int], ranking: Ranking
) -> list[Transition]:
    """Those who left, then those who entered, by name. Raises ValueError for a provisional one.

    An open window may yet change, so only closed ones let anybody in or out.
    """
    if ranking.provisional:
        raise ValueError("a provisional ranking lets nobody in or out")
    now = ranking.trending
    window_ms = ranking.window_ms

    def found(transition: Literal["enter", "leave"], counter: str, **more: Any) -> Transition:
        id_ = transition_id(transition, family, region, counter, window_ms)
        return Transition(id_, transition, family, region, counter, window_ms, **more)

    left = [
        found("leave", counter, entered_ms=before[counter])
        for counter in sorted(before.keys() - now.keys())
    ]
    entered = [
        found("enter", counter, entered_ms=window_ms, **values)
        for counter, values in sorted(_values(ranking, now.keys() - before.keys()).items())
    ]
    return left + entered


def _values(ranking: Ranking, counters: set[str]) -> dict[str, dict[str, Any]]:
    if not counters:
        return {}
    rows = ranking.rows.slice(0, len(ranking.trending))
    values = rows.select(["kind", "observed", "expected", "score"]).to_pylist()
    found = zip(ranking.trending, values, strict=True)
    return {name: value for name, value in found if name in counters}
