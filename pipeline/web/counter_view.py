"""What the dashboard shows of a counter beside its total: windows, and where they come from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.adjustments.history import history
from pipeline.errors import NothingThereError
from pipeline.reads.counts import Question, count
from pipeline.reads.explain import explain
from pipeline.reads.regions import by_region
from pipeline.reads.spans import Span
from pipeline.reads.uniques import Question as UniquesQuestion
from pipeline.reads.uniques import uniques
from pipeline.web.slower import Slower
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads
    from pipeline.web.counting import Asked
    from pipeline.web.hub import Ask
    from pipeline.web.questions import GrainName
    from pipeline.web.services import Services

WINDOWS: dict[GrainName, int] = {"1m": 6 * 60, "1h": 14 * 24, "1d": 2 * 366}
"""How many windows of each grain a page shows at most; older ones are asked for by themselves."""

DETAIL_S = 10.0
HISTORY_MAX = 50


def windows_view(services: Services, asked: Asked, by: GrainName) -> Ask:
    """The last windows of a grain. The ask raises TryAgainError."""
    interval_ms = round(services.settings.rollup_interval_s * 1000)

    async def ask() -> dict[str, Any]:
        since_ms = services.clock.now_ms() - WINDOWS[by] * GRAIN_MS[by]
        question = Question(asked.counter, by, Span.of(since_ms, None), asked.region)
        found = await services.asking.ask(
            partial(count, question=question, mode="exact", rollup_interval_ms=interval_ms)
        )
        return {**found.document(), "by": by}

    return ask


def detail_view(services: Services, asked: Asked) -> Ask:
    """Uniques, regions, shards, adjustments, and why the number is what it is.

    Asked for every ten seconds: it takes about ten queries. The ask raises TryAgainError.
    """

    async def ask() -> dict[str, Any]:
        return await services.asking.ask(partial(_detail, asked=asked))

    return Slower(ask, services.clock, DETAIL_S)


def _detail(reads: Reads, asked: Asked) -> dict[str, Any]:
    made = history(reads, asked.counter, limit=HISTORY_MAX)
    return {
        "counter": asked.counter,
        "uniques": _uniques(reads, asked),
        "regions": [one.document() for one in by_region(reads, asked.counter)],
        "explanation": explain(reads, asked.counter, None).document(),
        "history": [one.document() for one in made],
    }


def _uniques(reads: Reads, asked: Asked) -> dict[str, Any] | None:
    """None where the rules have no members counted."""
    question = UniquesQuestion((asked.counter,), None, None, asked.region)
    try:
        return uniques(reads, question).document()
    except NothingThereError:
        return None
