"""The page over HTTP: what it may do, who keeps it, who is signed in."""

import re
from pathlib import Path

import pytest

from pipeline.access.access import Access
from pipeline.access.grant import Grant, Rights
from pipeline.access.tokens import Known, digest_of, new_token
from pipeline.web.cookie import CHARS_MAX, COOKIE
from pipeline.web.page_files import FOLDER, page_files, read_page
from tests.unit.web.app import Site, site_of
from tests.unit.web.world import World

TOKEN = new_token()
LIKES = "/api/v1/counters/likes:a"


@pytest.fixture
def site(world: World) -> Site:
    return site_of(world)


@pytest.fixture
def guarded(world: World) -> Site:
    world.values["likes:a"] = 3
    grant = Grant("ann", Rights(read=frozenset({"likes"}), write=frozenset({"likes"})))
    known = Known(grant, digest_of(TOKEN))
    return site_of(world, Access(world.clock, also=[known]))


async def test_the_page_may_run_and_ask_for_its_own_alone(site: Site) -> None:
    page = await site.client.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    # Nothing inline that the policy would refuse, and nothing from elsewhere.
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]* src=)", page.text)
    assert not re.search(r"https?://|//\w", page.text)


async def test_files_are_kept_for_ever_under_a_name_of_their_contents(site: Site) -> None:
    page = await site.client.get("/")
    names = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
    assert len(names) == 4
    for name in names:
        file = await site.client.get(f"/{name}")
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
    other = re.sub(r"page/\w+/", "page/0123456789abcdef/", names[0])
    assert (await site.client.get(f"/{other}")).status_code == 404
    assert (await site.client.get(f"/page/{page_files().version}/..%2Fapp.py")).status_code == 404


async def test_who_has_the_page_already_is_told_so(site: Site) -> None:
    first = await site.client.get("/")
    tag = first.headers["etag"]
    again = await site.client.get("/", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"


def test_another_content_of_any_file_is_another_version(tmp_path: Path) -> None:
    for name, text in {"index.html": "{{files}}", "a.js": "1", "b.css": "2"}.items():
        (tmp_path / name).write_text(text)
    before = read_page(tmp_path)
    assert before.index == f"page/{before.version}".encode()
    (tmp_path / "b.css").write_text("3")
    assert read_page(tmp_path).version != before.version


def test_no_script_of_the_page_has_a_way_from_text_to_markup() -> None:
    for script in FOLDER.glob("*.js"):
        ways = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
        )
        assert not re.search(ways, script.read_text()), script.name


async def test_without_tokens_there_is_nothing_to_sign_in_to(site: Site) -> None:
    found = (await site.client.get("/session")).json()
    assert found == {"tokens": False, "name": "everybody", "reads_all": True}
    assert (await site.client.post("/session", json={"token": TOKEN})).status_code == 422


async def test_a_token_that_holds_becomes_a_cookie_for_reads_alone(guarded: Site) -> None:
    client = guarded.client
    assert (await client.get("/session")).json()["name"] is None
    assert (await client.get(LIKES)).status_code == 401
    signed_in = await client.post("/session", json={"token": TOKEN})
    assert signed_in.json() == {"tokens": True, "name": "ann", "reads_all": False}
    assert signed_in.headers["cache-control"] == "no-store"
    assert client.cookies[COOKIE] == TOKEN
    assert (await client.get(LIKES)).json()["total"] == 3
    written = await client.post("/api/v1/increments", json={"counter": "likes:a"})
    assert written.status_code == 401
    assert (await client.delete("/session")).json()["name"] is None
    assert (await client.get(LIKES)).status_code == 401


async def test_a_header_goes_before_the_cookie(guarded: Site) -> None:
    await guarded.client.post("/session", json={"token": TOKEN})
    wrong = {"Authorization": f"Bearer {new_token()}"}
    assert (await guarded.client.get(LIKES, headers=wrong)).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"token": "nonsense"}', 401),
        (b'{"token": ""}', 401),
        (b"{}", 422),
        (b"\xff", 422),
        (b'{"token": 1}', 422),
        (b'{"token": "' + b"x" * (CHARS_MAX + 1) + b'"}', 401),
    ],
)
async def test_what_is_no_token_signs_nobody_in(guarded: Site, body: bytes, status: int) -> None:
    answer = await guarded.client.post("/session", content=body)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_no_other_site_signs_anybody_in_or_out(guarded: Site, method: str) -> None:
    other = {"Sec-Fetch-Site": "cross-site"}
    answer = await guarded.client.request(method, "/session", json={"token": TOKEN}, headers=other)
    assert answer.status_code == 403


async def test_the_cookie_is_for_https_alone_where_the_page_is(guarded: Site) -> None:
    plain = await guarded.client.post("/session", json={"token": TOKEN})
    assert "secure" not in plain.headers["set-cookie"].lower()
    for header in plain.headers["set-cookie"].split("; ")[1:]:
        assert header.lower() in {"httponly", "samesite=strict", "path=/"}
    proxied = {"X-Forwarded-Proto": "https"}
    safe = await guarded.client.post("/session", json={"token": TOKEN}, headers=proxied)
    assert "; secure" in safe.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "path",
    ["dead-letters", "builds", "shards", "events?rate=true", "events?operator=true"],
)
async def test_what_is_of_all_families_is_not_for_a_reader_of_one(guarded: Site, path: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert (await guarded.client.get(f"/api/v1/{path}", headers=headers)).status_code == 403


@pytest.mark.parametrize("part", ["explain", "history", "regions"])
async def test_parts_of_a_counter_are_for_readers_of_its_family(guarded: Site, part: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    path = f"/api/v1/counters/views:a/{part}"
    assert (await guarded.client.get(path, headers=headers)).status_code == 403
    assert (await guarded.client.get(path)).status_code == 401
