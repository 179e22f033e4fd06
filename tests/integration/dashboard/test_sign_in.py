"""With tokens the page asks for one, reads with it, and writes nothing by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.integration.dashboard.test_page import is_live, shown
from tests.kit.chromium import DESKTOP, Browser
from tests.kit.tally import RunningTally
from tests.kit.web import Web


@pytest.fixture(scope="module")
def tokens(tally: RunningTally, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens") / "tokens.toml"


@pytest.fixture(scope="module")
def reader(tally: RunningTally, tokens: Path) -> str:
    added = tally.run("token", "add", "ann", "--read", "likes", "--file", str(tokens))
    return next(word for word in added.stdout.split() if word.startswith("tally_"))


@pytest.fixture(scope="module")
def guarded(
    tally: RunningTally, tokens: Path, reader: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    env = {**tally.env, "TALLY_TOKENS": str(tokens)}
    with Web(env, tmp_path_factory.mktemp("guarded") / "web.txt") as served:
        yield served


def test_a_reader_signs_in_sees_what_the_token_may_and_signs_out(
    browser: Browser, tally: RunningTally, guarded: Web, reader: str
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{guarded.url}/#/counter/likes%3Apost-1")
    browser.one("#token").send_keys("not-a-token", Keys.ENTER)
    browser.until(lambda: "Not signed in" in browser.text("#token-error"), "it is refused")
    browser.one("#token").clear()
    browser.one("#token").send_keys(reader, Keys.ENTER)
    shown(browser, "#figure-total", tally.json("count", "likes:post-1")["total"])
    is_live(browser)
    assert reader not in browser.run("return document.cookie + document.documentElement.outerHTML")
    browser.open(f"{guarded.url}/#/operator")
    browser.until(lambda: "Not for this token" in browser.text("#main"), "all are not for ann")
    browser.one("#sign-out").click()
    browser.one("#token")
    assert guarded.client.get("/session").json()["name"] is None
    browser.console()  # The refused token is told there.


def test_the_cookie_reads_and_never_writes(guarded: Web, reader: str) -> None:
    signed_in = guarded.client.post("/session", json={"token": reader})
    assert signed_in.json() == {"tokens": True, "name": "ann", "reads_all": False}
    header = signed_in.headers["set-cookie"].lower()
    assert "httponly" in header
    assert "samesite=strict" in header
    assert "secure" not in header
    cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    assert guarded.client.get("/api/v1/counters/likes:post-1", headers=cookie).status_code == 200
    written = guarded.client.post(
        "/api/v1/increments", json={"counter": "likes:post-1"}, headers=cookie
    )
    assert written.status_code == 401
    proxied = {"X-Forwarded-Proto": "https"}
    safe = guarded.client.post("/session", json={"token": reader}, headers=proxied)
    assert "secure" in safe.headers["set-cookie"].lower()
    other = {"Sec-Fetch-Site": "cross-site"}
    assert guarded.client.post("/session", json={"token": reader}, headers=other).status_code == 403
