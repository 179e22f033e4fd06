"""Only cached totals and increments of one counter are answered before routes are looked at."""

import pytest
from starlette.types import Receive, Scope, Send

from pipeline.web import quick
from pipeline.web.quick import Quick
from pipeline.web.route_counters import CACHED, router
from pipeline.web.route_increments import INCREMENT
from tests.unit.web.world import settled


async def asked(
    monkeypatch: pytest.MonkeyPatch, name: str, route: object, method: str, path: str
) -> tuple[list[str], list[str]]:
    """Whose counter was answered at once, as that route's, and which path went on to the routes."""
    routed: list[str] = []
    answered: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        routed.append(scope["path"])

    async def answer(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert scope["route"] is route
        answered.append(scope["path_params"]["counter"])

    async def quickly(_: object) -> object:
        return answer

    monkeypatch.setattr(quick, name, quickly)
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": []}
    await Quick(app)(scope, _never, _nowhere)
    await settled()
    return answered, routed


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
        ("GET", "/api/v1/counters/likes:post-42/increment", False),
        ("GET", "/metrics", False),
    ],
)
async def test_other_paths_and_methods_go_on_to_the_routes(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, *, is_quick: bool
) -> None:
    found = await asked(monkeypatch, "cached", CACHED, method, path)
    assert found == (([path.rpartition("/")[2]], []) if is_quick else ([], [path]))


@pytest.mark.parametrize(
    ("method", "path", "is_quick"),
    [
        ("POST", "/api/v1/counters/likes:post-42/increment", True),
        ("POST", "/api/v1/counters/views:%2Fhome/increment", True),
        ("POST", "/api/v1/counters/views:/home/increment", False),
        ("POST", "/api/v1/counters/increment", False),
        ("POST", "/api/v1/counters//increment", False),
        ("POST", "/api/v1/counters/likes:post-42/decrement", False),
        ("POST", "/api/v1/counters/likes:post-42/increment/", False),
        ("PUT", "/api/v1/counters/likes:post-42/increment", False),
        ("POST", "/api/v1/increments", False),
    ],
)
async def test_an_increment_of_one_counter_is_answered_at_once_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, *, is_quick: bool
) -> None:
    found = await asked(monkeypatch, "plain_increment", INCREMENT, method, path)
    assert found == (([path.split("/")[4]], []) if is_quick else ([], [path]))


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
