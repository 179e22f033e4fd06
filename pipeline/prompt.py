"""Faust and its worker without their fixed pauses: a second at each start, another at each stop.

At a start Faust waits so that agents have named their topics before the group is joined; here it is
waited for what they do. At a stop it waits for nothing that can be named: all tasks are done.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import faust
from faust.tables import TableManager

if TYPE_CHECKING:
    from faust.types import AppT

REGISTERED_WITHIN_S = 1.0
"""As long as Faust waits at every start."""

_TURN_S = 0.005


class PromptTables(TableManager):
    """Tables whose changelogs are registered as soon as the agents' topics are."""

    async def on_start(self) -> None:
        """Waits for the agents' topics, for as long as Faust would at most; then does as it does.

        A topic that is registered after the group was joined is read 45 seconds later.
        """
        deadline_s = self.loop.time() + REGISTERED_WITHIN_S
        while not (self.should_stop or agents_are_registered(self.app)):
            if self.loop.time() > deadline_s:
                break
            await self.sleep(_TURN_S)
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()


def agents_are_registered(app: AppT) -> bool:
    """Whether every topic that an agent reads is known to what subscribes; never blocks."""
    wanted = {name for agent in app.agents.values() for name in agent.channel.topics}
    return wanted <= {name for channel in app.topics for name in channel.topics}


class PromptWorker(faust.Worker):
    """Ends when its tasks have ended."""

    async def _sentinel_task(self) -> None:
        await asyncio.sleep(0)
