"""Answers over HTTP: what edges may keep, what a session carries, how a problem is told."""

import re
from collections.abc import AsyncIterator

import pytest

from pipeline.access.access import Access
from pipeline.access.grant import Grant, Rights
from pipeline.access.sites import check_site, is_loopback
from pipeline.access.tokens import Known, digest_of, new_token
from pipeline.errors import (
    BadInputError,
    OperatorError,
    TallyError,
    TryAgainError,
    UncountedFamilyError,
)
from pipeline.producer.receipts import NotStoredError, Places, UnknownDeliveryError
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.web.problems import TEXT_CHARS_MAX, of_error
from pipeline.web.questions import checked_places
from tests.unit.web.app import Site, site_of
from tests.unit.web.world import World

LIKES = "/api/v1/counters/likes:a"


@pytest.fixture
def site(world: World) -> Site:
    world.clock.now_s = 1_800_000_000.0
    world.values["likes:a"], world.latest["likes:a"] = 3, Places({0: 8})
    return site_of(world)


async def test_a_total_has_a_tag_by_which_a_client_need_not_get_it_again(
    world: World, site: Site
) -> None:
    first = await site.client.get(LIKES)
    assert first.json()["total"] == 3
    assert first.headers["cache-control"] == "public, max-age=2"
    world.clock.advance(1)
    tag = first.headers["etag"]
    for header in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
        again = await site.client.get(LIKES, headers={"If-None-Match": header})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    # What it has aged here is taken off what an edge may keep it for.
    assert again.headers["cache-control"] == "public, max-age=1"
    other = await site.client.get(LIKES, headers={"If-None-Match": 'W/"x"'})
    assert other.status_code == 200
    world.clock.advance(2)
    world.values["likes:a"] = 4
    changed = await site.client.get(LIKES, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["total"]) == (200, 4)


async def test_several_counters_have_a_tag_that_their_ages_do_not_change(
    world: World, site: Site
) -> None:
    path = "/api/v1/counters?counter=likes:a&counter=likes:b"
    first = await site.client.get(path)
    world.clock.advance(1)
    again = await site.client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


async def test_an_incomplete_answer_is_for_no_edge_to_keep(world: World, site: Site) -> None:
    world.flushed_at_ms = world.clock.now_ms() - 40_000
    answer = await site.client.get(LIKES)
    assert answer.json()["complete"] is False
    assert answer.headers["cache-control"] == "public, no-cache"


async def test_the_session_holds_what_was_seen_so_far_and_answers_vary_by_it(
    world: World, site: Site
) -> None:
    first = await site.client.get(LIKES)
    assert first.headers["tally-session"] == "0:8"
    assert "Tally-Session" in first.headers["vary"]
    world.latest["likes:b"] = Places({1: 5, 0: 2})
    session = {"Tally-Session": first.headers["tally-session"]}
    both = await site.client.get("/api/v1/counters/likes:b/exact", headers=session)
    assert both.headers["tally-session"] == "0:8,1:5"


def token_access(world: World, rights: Rights) -> tuple[Access, str]:
    token = new_token()
    known = Known(Grant("tester", rights), digest_of(token), None)
    return Access(world.clock, also=[known]), token


async def test_with_tokens_answers_are_private_and_each_refusal_has_its_status(
    world: World,
) -> None:
    access, token = token_access(world, Rights(read=frozenset({"likes"})))
    site = site_of(world, access)
    bearer = {"Authorization": f"Bearer {token}"}
    found = await site.client.get(LIKES, headers=bearer)
    assert found.headers["cache-control"].startswith("private, ")
    assert "Authorization" in found.headers["vary"]
    cases = [
        (await site.client.get(LIKES), 401),
        (await site.client.get(LIKES, headers={"Authorization": "Bearer nope"}), 401),
        (await site.client.get("/api/v1/counters/views:a", headers=bearer), 403),
        (await site.client.post(f"{LIKES}/increment", headers=bearer), 403),
        (await site.client.post("/api/v1/increments", headers=bearer, content=b"{}"), 403),
        (await site.client.get("/api/v1/status", headers=bearer), 403),
        (await site.client.get("/api/v1/events?counter=views:a", headers=bearer), 403),
    ]
    for answer, status in cases:
        assert answer.status_code == status, answer.text
        assert token not in answer.text
        assert answer.headers["cache-control"] == "no-store"
    assert cases[0][0].headers["www-authenticate"] == 'Bearer realm="tally"'


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/counters/likes%3Aa", 200),
        ("/api/v1/counters/url:http%3A%2F%2Fa%2Fb", 200),
        ("/api/v1/counters/url:http://a/b", 200),
        ("/api/v1/counters/url:a/b/exact", 200),
        ("/api/v1/counters/likes:%C3%A9", 200),
        ("/api/v1/counters/likes:%FF", 422),
        ("/api/v1/counters/likes:%00", 422),
        ("/api/v1/counters/nofamily", 422),
        ("/api/v1/counters/", 422),
        ("/api/v1/counters/likes:" + "x" * 300, 422),
        (f"{LIKES}?region=" + "x" * 33, 422),
        (f"{LIKES}?region=%00", 422),
        (f"{LIKES}/exact?after=nope", 422),
        (f"{LIKES}/exact?after=" + "0:1," * 3000 + "0:1", 200),
        (f"{LIKES}/exact?wait=nan", 422),
        (f"{LIKES}/exact?wait=31", 422),
        (f"{LIKES}/windows?last=60m&since=2026-01-01", 422),
        (f"{LIKES}/windows?last=36500d&by=1m", 422),
        (f"{LIKES}/windows?since=2026-01-02&until=2026-01-01", 422),
        ("/api/v1/families/a%3Ab/top", 422),
        ("/api/v1/families/likes/top?k=0", 422),
        ("/api/v1/families/likes/top?at=2026-01-01", 422),
        ("/api/v1/families/likes/top?window=1h&at=1969-01-01", 422),
        ("/api/v1/families/likes/top?window=1h&last=1h", 422),
        ("/api/v1/families/likes/trending?at=9999-01-01", 422),
        ("/api/v1/families/likes/trending?at=2026-01-01&now=true", 422),
        ("/api/v1/events", 422),
        ("/api/v1/nothing", 404),
    ],
)
async def test_paths_and_parameters_are_read_as_they_were_sent(
    site: Site, path: str, status: int
) -> None:
    answer = await site.client.get(path)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert re.fullmatch(r"[^\n]+", answer.json()["error"])


@pytest.mark.parametrize(
    ("path", "counter"),
    [
        ("/api/v1/counters/url:a%2Fexact", "url:a/exact"),
        ("/api/v1/counters/url:a%252Fb", "url:a%2Fb"),
        ("/api/v1/counters/likes:%E2%82%AC/exact", "likes:€"),
        ("/api/v1/counters/url:a/b/live/exact", "url:a/b/live"),
    ],
)
async def test_a_counter_with_slashes_and_percent_signs_is_the_one_that_was_meant(
    site: Site, path: str, counter: str
) -> None:
    assert (await site.client.get(path)).json()["counter"] == counter


@pytest.mark.parametrize(
    ("error", "status", "retries"),
    [
        (TryAgainError("away"), 503, True),
        (NotStoredError("never sent"), 503, True),
        (UnknownDeliveryError("may be stored"), 504, False),
        (BadInputError("wrong"), 422, False),
        (OperatorError("act"), 503, False),
        (TallyError("some other"), 503, False),
    ],
)
def test_each_error_has_its_status_and_only_what_is_safe_to_repeat_says_when(
    error: TallyError, status: int, retries: bool
) -> None:
    answer = of_error(error)
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) is retries


def test_a_problem_is_one_line_of_bounded_length() -> None:
    answer = of_error(TryAgainError("a\nb\r\n\tc " + "x" * 5000))
    text = bytes(answer.body).decode()
    assert text.startswith('{"error":"a b c xxx')
    assert len(text) < TEXT_CHARS_MAX + 20


async def test_a_bug_is_told_without_its_text_and_logged_with_it(
    world: World, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    world.error = ValueError("password=hunter2")
    answer = await site.client.get(f"{LIKES}/exact?wait=0")
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "this is a bug in Tally: its log has what happened"},
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1:8321"}, 200),
        ({"Host": "[::1]:8321"}, 200),
        ({"Host": "[::1"}, 403),
    ],
)
async def test_without_tokens_no_page_of_another_site_asks_in_its_readers_name(
    site: Site, headers: dict[str, str], status: int
) -> None:
    assert (await site.client.get(LIKES, headers=headers)).status_code == status


async def test_with_tokens_any_name_may_be_served(world: World) -> None:
    access, token = token_access(world, Rights(read=frozenset({"*"})))
    site = site_of(world, access)
    headers = {"Authorization": f"bearer {token}", "Host": "counts.example"}
    assert (await site.client.get(LIKES, headers=headers)).status_code == 200


def test_only_addresses_of_this_machine_are_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "tally.example", "")))
    check_site({"host": "localhost:1"})


async def test_a_body_that_is_too_large_is_refused_announced_or_not(site: Site) -> None:
    announced = await site.client.post(f"{LIKES}/increment", content=b" " * (17 << 10))
    assert announced.status_code == 413

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b" " * 1024

    streamed = await site.client.post(f"{LIKES}/increment", content=parts())
    assert streamed.status_code == 413
    assert "send it in parts" in streamed.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"nope",
        b"[]",
        b'{"delta": 0}',
        b'{"delta": 1e400}',
        b'{"delta": 1.5}',
        b'{"delta": true}',
        b'{"member": ""}',
        b'{"region": "*"}',
        b'{"at": "yesterday"}',
        b'{"at": 5}',
        b'{"counter": "likes:b"}',
        b'{"member": "\\ud800"}',
        b'{"id": "a\\u0000b"}',
        b"[" * 500,
        b"\xff",
    ],
)
async def test_a_refused_increment_is_answered_with_its_reason_before_kafka_is_needed(
    site: Site, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def producer() -> None:
        raise AssertionError("nothing may be written")

    async def rules() -> CountingRules:
        return CountingRules()

    monkeypatch.setattr(site.services, "producer", producer)
    monkeypatch.setattr(site.services.timely, "_known", rules)
    answer = await site.client.post(f"{LIKES}/increment", content=body)
    assert answer.status_code == 422, answer.text


async def test_no_edge_keeps_the_value_of_a_strict_counter(world: World, site: Site) -> None:
    world.applied = CountingRules(families={"likes": FamilyRules(strict=StrictRules())})
    answer = await site.client.get(LIKES)
    assert answer.json()["complete"] is True
    assert answer.headers["cache-control"] == "public, no-cache"


async def test_who_asks_for_a_family_nobody_counted_hears_no_names_of_others(
    world: World, site: Site
) -> None:
    world.error = UncountedFamilyError("nope", "there are salaries, views")
    for path in ("top", "trending"):
        answer = await site.client.get(f"/api/v1/families/nope/{path}")
        assert answer.status_code == 404
        assert answer.json()["error"] == (
            "nothing of a family 'nope' was ever counted; /api/v1/families lists those you may read"
        )


def test_a_session_of_as_many_partitions_as_there_can_be_is_taken_back() -> None:
    given = Places(dict.fromkeys(range(4096), 10**18 - 1))
    assert checked_places("Tally-Session", str(given)) == given
    with pytest.raises(BadInputError, match="Tally-Session: longer than 98304 characters"):
        checked_places("Tally-Session", "0:1," * 25_000)
