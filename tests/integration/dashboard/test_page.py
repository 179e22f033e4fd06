"""What readers see: the numbers of `tally count`, as they change, on every size of screen."""

from functools import partial

import pytest
from selenium.webdriver.common.keys import Keys

from tests.integration.dashboard.conftest import HOSTILE, counter_url, produce
from tests.kit.chromium import DESKTOP, NARROWEST, PHONE, Browser
from tests.kit.tally import RunningTally
from tests.kit.web import Web

READ_WINDOWS = """
const cells = (row) => [...row.children].map((cell) => cell.textContent);
const listed = document.querySelectorAll('[aria-label="Windows as a table"] tbody tr');
return [document.querySelector(".readout").textContent, [...listed].map(cells)];
"""
"""What is written over the chart, and its table, the newest first: both of the same moment."""

VIEWS = ["#/?family=hashtag", "#/?family=likes", "#/counter/likes%3Apost-1", "#/operator"]


def shown(browser: Browser, css: str, value: object) -> None:
    browser.until(lambda: browser.value(css) == str(value), f"{css} shows {value}")


def has(browser: Browser, text: str) -> bool:
    return text in browser.text("#main")


def name_of(window: str) -> str:
    """A minute as the page names it."""
    return f"{window[:16].replace('T', ' ')} UTC"


def is_live(browser: Browser) -> None:
    browser.until(lambda: browser.text("#pulse-text") == "Live", "the page is live")


def test_numbers_on_the_page_are_those_of_tally_count_and_come_without_a_reload(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    browser.look(DESKTOP)
    browser.open(counter_url(web, "likes:post-1"))
    counted = tally.json("count", "likes:post-1")["total"]
    shown(browser, "#figure-total", counted)
    shown(browser, "#figure-uniques", tally.json("unique", "likes:post-1")["uniques"])
    browser.until(partial(has, browser, "Counted by build 1"), "why the number is what it is")
    browser.run("window.stays = 1")
    produce(tally, *({"counter": "likes:post-1", "region": "eu"} for _ in range(1_000)))
    shown(browser, "#figure-total", counted + 1_000)
    assert browser.text("#figure-total") == f"{counted + 1_000:,}"
    assert tally.json("count", "likes:post-1")["total"] == counted + 1_000
    browser.one(".as-table summary").send_keys(Keys.ENTER)

    def windows_are_those_of_count() -> bool:
        counted = tally.json("count", "likes:post-1", "--by", "1m")["windows"]
        read, listed = browser.run(READ_WINDOWS)
        # The page fills up to the present: a minute that began since has a zero, and no window.
        told = {name: number for name, number in listed if number != "0"}
        expected = {name_of(one["window"]): f"{one['count']:,}" for one in counted}
        return told == expected and bool(read == ": ".join(listed[0]))

    browser.until(windows_are_those_of_count, "the windows of tally count, and the last one read")
    assert browser.run("return window.stays") == 1
    assert browser.console() == []


def test_the_overview_ranks_as_tally_top_does_and_links_to_counters(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{web.url}/#/?family=likes")
    ranked = tally.json("top", "likes")["top"]
    browser.until(
        lambda: (
            [one.text for one in browser.all("#main th.name")] == [one["counter"] for one in ranked]
        ),
        "the ranking",
    )
    values = [one.get_attribute("value") for one in browser.all("#main td data")]
    assert values == [str(one["count"]) for one in ranked]
    browser.until(lambda: browser.value("#total-rate"), "the total rate")
    browser.all("#main th.name a")[0].click()
    browser.until(lambda: browser.text("h1") == ranked[0]["counter"], "the counter's view")
    assert browser.run("return document.activeElement.tagName") == "H1"


@pytest.mark.parametrize("counter", HOSTILE)
def test_markup_in_names_is_shown_and_not_run(
    browser: Browser, tally: RunningTally, web: Web, counter: str
) -> None:
    browser.look(DESKTOP)
    for url in (counter_url(web, counter), f"{web.url}/#/?family=likes", f"{web.url}/#/operator"):
        browser.open(url)
        is_live(browser)
        expected = '"<img src=x onerror=alert(1)>"' if url.endswith("operator") else counter
        browser.until(partial(has, browser, expected), f"{expected} is shown")
    browser.open(counter_url(web, counter))
    shown(browser, "#figure-total", tally.json("count", counter)["total"])
    browser.until(lambda: '<b onclick="x">' in browser.text("#main"), "the region")
    assert browser.run("return window.hurt") is None
    assert browser.all("#main script, #main img, #main b") == []
    # Neither an alert nor a refusal by the policy: nothing was tried.
    assert browser.console() == []


def test_a_stale_page_says_so_and_goes_on_when_the_server_is_back(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    browser.look(DESKTOP)
    browser.open(counter_url(web, "likes:post-2"))
    before = tally.json("count", "likes:post-2")["total"]
    shown(browser, "#figure-total", before)
    is_live(browser)
    web.kill()
    browser.until(lambda: browser.text("#banner").startswith("Stale since"), "it says so")
    assert browser.one("#banner").is_displayed()
    assert browser.value("#figure-total") == str(before)
    produce(tally, {"counter": "likes:post-2", "delta": 3})
    web.start()
    shown(browser, "#figure-total", before + 3)
    is_live(browser)
    assert not browser.one("#banner").is_displayed()
    browser.console()  # Refused connections are told there, as they should be.


@pytest.mark.parametrize("size", [PHONE, NARROWEST], ids=["phone", "narrowest"])
def test_on_a_phone_nothing_scrolls_sideways(
    browser: Browser, web: Web, size: tuple[int, int]
) -> None:
    browser.look(size)
    for view in VIEWS:
        browser.open(f"{web.url}/{view}")
        is_live(browser)
        browser.until(lambda: not browser.all(".note-loading:not([hidden])"), "all is loaded")
        width = browser.run("return document.documentElement.scrollWidth")
        assert width <= size[0], view


def test_the_keyboard_alone_reaches_a_counter_and_moves_and_zooms_its_windows(
    browser: Browser, web: Web
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{web.url}/")
    is_live(browser)

    def press(*keys: str) -> None:
        browser.driver.switch_to.active_element.send_keys(*keys)

    browser.one("body").send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.id") == "skip"
    press(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "main"
    browser.run("document.getElementById('search-text').focus()")
    press("likes:post-1", Keys.ENTER)
    browser.until(lambda: browser.text("h1") == "likes:post-1", "the counter's view")
    plot = browser.one(".plot")
    browser.until(lambda: plot.get_attribute("aria-valuemax") == "59", "an hour of minutes")
    plot.send_keys(Keys.HOME)
    assert plot.get_attribute("aria-valuenow") == "0"
    plot.send_keys(Keys.END, Keys.ARROW_LEFT)
    assert plot.get_attribute("aria-valuenow") == "58"
    plot.send_keys("+")
    assert plot.get_attribute("aria-valuemax") == "29"
    plot.send_keys("0")
    assert plot.get_attribute("aria-valuemax") == "59"


def test_an_empty_family_a_wrong_name_and_an_unknown_counter_have_states_of_their_own(
    browser: Browser, web: Web
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{web.url}/#/?family=likes&region=mars")
    browser.until(lambda: browser.all(".note-empty:not([hidden])"), "an empty ranking")
    browser.open(counter_url(web, "likes:never"))
    shown(browser, "#figure-total", 0)
    browser.until(lambda: "Nobody has corrected it" in browser.text("#main"), "no adjustments")
    browser.one("#search-text").send_keys("nonsense", Keys.ENTER)
    assert "family:key" in browser.run(
        "return arguments[0].validationMessage", browser.one("#search-text")
    )
