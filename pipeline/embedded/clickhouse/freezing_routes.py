"""Freezing over HTTP, for who has the data folder: the way of `tally backup` to a running door."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pipeline.embedded.clickhouse.control import FREEZE_PATH, KEY_HEADER, THAW_PATH
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from pipeline.embedded.clickhouse.control import Control
    from pipeline.embedded.clickhouse.freezing import Freezer
    from pipeline.embedded.clickhouse.write_gate import WriteGate

_REFUSED = "Only who can read the data folder may copy it.\n"


class Freezing:
    """Two routes. Nobody is admitted until the door has told its address, and with it the key."""

    def __init__(self, freezer: Freezer, gate: WriteGate) -> None:
        self.gate = gate
        self.control: Control | None = None
        self._freezer = freezer
        self._thread = ThreadPoolExecutor(1, "freeze")

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post(FREEZE_PATH, self._freeze)
        router.add_post(THAW_PATH, self._thaw)

    async def _freeze(self, http: web.Request) -> web.Response:
        """Answers with `Frozen`; 503 if it is worth trying again, 500 with the reason."""
        if not self._admits(http):
            return web.Response(status=403, text=_REFUSED)
        loop = asyncio.get_running_loop()
        try:
            frozen = await loop.run_in_executor(self._thread, self._freezer.freeze)
        except TryAgainError as error:
            return web.Response(status=503, text=str(error))
        except (ClickHouseError, OSError) as error:
            return web.Response(status=500, text=str(error))
        return web.Response(body=msgspec.json.encode(frozen))

    async def _thaw(self, http: web.Request) -> web.Response:
        if not self._admits(http):
            return web.Response(status=403, text=_REFUSED)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._freezer.thaw)
        return web.Response()

    def _admits(self, http: web.Request) -> bool:
        return self.control is not None and self.control.admits(http.headers.get(KEY_HEADER, ""))
