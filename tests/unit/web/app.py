"""The real app on services that never reach a server: what they hold is given by the test."""

from dataclasses import dataclass
from typing import Any

import httpx

from pipeline.access.access import Access
from pipeline.web.app import build_app
from pipeline.web.services import Services
from schemas.settings import Settings
from tests.unit.web.world import World


@dataclass
class Site:
    """An app whose ClickHouse is a World. Nothing is connected: the lifespan is not run."""

    services: Services
    client: httpx.AsyncClient


def site_of(world: World, access: Access | None = None, **settings: Any) -> Site:
    """As `build_app` makes it, but for who answers questions."""
    services = Services(Settings(config=None, **settings), world.clock)
    services.access = access
    parts = (services.flushed, services.counting, services.timely, services.families)
    for part in (services, *parts):
        name = "asking" if part is services else "_asking"
        setattr(part, name, world)
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    return Site(services, httpx.AsyncClient(transport=transport, base_url="http://localhost"))
