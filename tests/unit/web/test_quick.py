"""Only what can be nothing but a cached total is answered before routes are looked at."""

import pytest
from starlette.types import Receive, Scope, Send

from pipeline.web import quick
from pipeline.web.quick import Quick
from pipeline.web.route_counters import CACHED, router
from tests.unit.web.world import settled


@pytest.mark.parametrize(
    ("method", "path", "is_quick"),
    [
        ("GET", "/api/v1/counters/likes:post-42", True),
        ("GET", "/api/v1/counters/views:%2Fhome", True),
        ("GET", "/api/v1/counters/likes", True),
        ("GET", "/api/v1/counters/views:/home", False),
        ("GET", "/api/v1/counters/likes:post-42/exact", False),
        ("GET", "/api/v1/counters/", False),
        ("GET", "/api/v1/counters", False),
        ("HEAD", "/api/v1/counters/likes:post-42", False),
        ("POST", "/api/v1/counters/likes:post-42", False),
        ("GET", "/metrics", False),
    ],
)
async def test_other_paths_and_methods_go_on_to_the_routes(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, *, is_quick: bool
) -> None:
    routed: list[str] = []
    answered: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        routed.append(scope["path"])

    async def answer(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert scope["route"] is CACHED
        answered.append(scope["path_params"]["counter"])

    async def cached(_: object) -> object:
        return answer

    monkeypatch.setattr(quick, "cached", cached)
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": []}
    await Quick(app, CACHED)(scope, _never, _nowhere)
    await settled()
    assert (answered, routed) == (([path.rpartition("/")[2]], []) if is_quick else ([], [path]))


def test_every_other_route_below_a_counter_has_a_slash_after_it() -> None:
    paths = [getattr(one, "path", "") for one in router.routes]
    below = [path for path in paths if path.startswith("/api/v1/counters/")]
    others = [path for path in below if path != getattr(CACHED, "path", None)]
    assert others
    assert all("/" in path.removeprefix("/api/v1/counters/{counter:path}") for path in others)


async def _never() -> dict[str, object]:
    raise AssertionError("nobody reads a body")


async def _nowhere(_: object) -> None:
    raise AssertionError("nothing is sent by itself")
