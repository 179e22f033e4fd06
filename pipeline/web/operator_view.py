"""What the dashboard shows of the whole pipeline: how much it counts, and how it is doing."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.reads.as_of import as_of
from pipeline.reads.rates import RateMeter, counted_by_minute
from pipeline.web.catching_up import CatchingUp
from pipeline.web.operator_parts import dead_letters, listed_builds, shard_plan
from pipeline.web.slower import Slower

if TYPE_CHECKING:
    from pipeline.web.hub import Ask
    from pipeline.web.services import Services

SLOWLY_S = 5.0
"""How often the plan, dead letters and builds are asked for, each of which takes some queries."""

BEAT_AGE_S = 0.5


def beat_view(services: Services) -> Ask:
    """As of when counts are. It changes each second, by which a page knows that it is followed.

    The ask raises TryAgainError.
    """

    async def ask() -> dict[str, Any]:
        look = await services.flushed.look(BEAT_AGE_S)
        now_ms = services.clock.now_ms()
        known = as_of(look.positions, now_ms, look.ground.rules, look.ground.partitions)
        return {
            "at_ms": now_ms,
            "as_of": known.text,
            "staleness_ms": known.staleness_ms,
            "complete": known.complete,
        }

    return ask


def rate_view(services: Services) -> Ask:
    """How much is counted a second, and by minute. The ask raises TryAgainError."""
    meter = RateMeter()

    async def ask() -> dict[str, Any]:
        minutes = await services.asking.ask(counted_by_minute)
        rate = meter.look(services.clock.monotonic_s(), minutes)
        return {
            "per_second": None if rate is None else round(rate, 1),
            "minutes": [{"at_ms": at, "counted": counted} for at, counted in minutes.items()],
        }

    return ask


def operator_view(services: Services) -> Ask:
    """Status, the shard plan, dead letters, builds. The ask raises TryAgainError, OperatorError."""
    clock, settings = services.clock, services.settings
    plan = Slower(partial(asyncio.to_thread, shard_plan, settings, clock), clock, SLOWLY_S)
    builds = Slower(partial(asyncio.to_thread, listed_builds, settings, clock), clock, SLOWLY_S)
    letters = Slower(partial(asyncio.to_thread, dead_letters, settings), clock, SLOWLY_S)
    catching_up = CatchingUp()

    async def ask() -> dict[str, Any]:
        # One after the other: no more than one thread works for those who look at this.
        status = (await services.status.now()).document()
        listed = await builds()
        return {
            "status": status,
            "plan": await plan(),
            "dead_letters": await letters(),
            "builds": catching_up.look(clock.monotonic_s(), listed["builds"]),
        }

    return ask
