"""The whole web API on one screen.

request
  └▶ around: the path as it was sent, figures, safe headers      around.py
      ├▶ quick: cached totals, increments, by the shortest way   quick.py
      └▶ caller: who asks, what they may, how often              callers.py, pipeline/access/
          └▶ question: parameters read and checked               questions.py, limits.py
              ├▶ totals: cached, exact, live                     counting.py, cache.py
              ├▶ windows, uniques, top, trending                 asking.py, pipeline/reads/
              ├▶ commands to strict counters, decided once       route_strict.py, pipeline/strict/
              ├▶ increments: checked, sent, a receipt            timely.py, pipeline/producer/
              └▶ events: views that many follow                  hub.py, *_view.py
          └▶ answer: JSON, CSV, Parquet, or one line of error    answering.py, problems.py
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastapi import Depends
from fastapi_offline import FastAPIOffline

from pipeline import __version__
from pipeline.web import (
    documents,
    route_counters,
    route_events,
    route_explain,
    route_families,
    route_increments,
    route_operations,
    route_operator,
    route_page,
    route_session,
    route_strict,
)
from pipeline.web.around import Around
from pipeline.web.callers import SHOWN_IN_DOCS
from pipeline.web.problems import tell_problems
from pipeline.web.quick import Quick

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

    from pipeline.web.services import Services

REFUSALS = {
    401: "no token, or one that does not hold",
    403: "the token is not for this family",
    404: "nothing of this was ever counted",
    408: "the body did not arrive in time",
    412: "what `after` stands for is not counted yet",
    413: "too large",
    422: "the request makes no sense; `error` says why",
    429: "the token's rate is used up",
    503: "a server behind is away; ask again later",
    504: "the log or the decision did not come in time: with an id it is safe to send it again",
}


def build_app(services: Services) -> FastAPI:
    """The app; nothing connects before it is started."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with services.running():
            yield

    # As FastAPI itself, but /docs needs nothing from elsewhere.
    app = FastAPIOffline(
        title="Tally",
        version=__version__,
        summary="Counts of what happens too often for one row.",
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
        dependencies=[Depends(SHOWN_IN_DOCS)] if services.access is not None else [],
        responses={
            code: {"model": documents.Problem, "description": text}
            for code, text in REFUSALS.items()
        },
    )
    app.state.services = services
    app.add_middleware(Quick)
    app.add_middleware(Around, meter=services.metrics, clock=services.clock)
    tell_problems(app)
    # These end with a word that the route of totals would take for a part of the counter.
    app.include_router(route_explain.router)
    # Reads of totals come first, because most requests are these, and each router costs a look.
    app.include_router(route_counters.router)
    app.include_router(route_increments.router)
    app.include_router(route_strict.router)
    app.include_router(route_families.router)
    app.include_router(route_events.router)
    app.include_router(route_operations.router)
    app.include_router(route_operator.router)
    app.include_router(route_session.router)
    app.include_router(route_page.router)
    return app
