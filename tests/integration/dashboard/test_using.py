"""What people do with a counter's view and the operator's: zoom, copy, choose, watch a replay."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.integration.dashboard.conftest import counter_url, produce
from tests.integration.dashboard.test_page import is_live
from tests.integration.dashboard.test_trends import rows
from tests.kit.chromium import DESKTOP, Browser
from tests.kit.processes import Process, free_port
from tests.kit.tally import START_TIMEOUT_S, TALLY, RunningTally, start_worker
from tests.kit.web import Web

RISES = "hashtag:#rises"
WINDOWS = '[aria-label="Windows as a table"] tbody tr'
BUILDS = '[aria-labelledby="card-builds"]'


def opened(browser: Browser, web: Web, counter: str) -> None:
    browser.look(DESKTOP)
    browser.open(counter_url(web, counter))
    is_live(browser)
    browser.until(lambda: browser.text(".readout"), "windows")


def newest(browser: Browser) -> int:
    """The place of the last window that is shown."""
    return int(browser.one(".plot").get_attribute("aria-valuemax") or "")


def drag(browser: Browser, begin: float, end: float) -> None:
    """Over the plot, from one part of its width to another."""
    plot = browser.one(".plot")
    middle, width = 0.5, plot.size["width"]
    actions = ActionChains(browser.driver, duration=50)
    actions.move_to_element_with_offset(plot, int((begin - middle) * width), 0).click_and_hold()
    actions.move_to_element_with_offset(plot, int((end - middle) * width), 0).release().perform()


def test_windows_are_zoomed_by_dragging_and_by_buttons_and_stay_as_time_goes_on(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    opened(browser, web, RISES)
    browser.until(lambda: newest(browser) > 90, "windows of more than an hour and a half")
    all_windows = newest(browser)
    drag(browser, 0.5, 0.75)
    assert 0.2 * all_windows < newest(browser) < 0.3 * all_windows
    first = rows_of_table(browser)[-1]
    produce(tally, {"counter": RISES, "region": "eu"})
    browser.until(lambda: browser.text("#figure-total") == "305", "another increment")
    assert rows_of_table(browser)[-1] == first
    drag(browser, 0.9, 0.4)
    assert newest(browser) < 0.2 * all_windows
    browser.one('[aria-label="Zoom out"]').click()
    browser.one('[aria-label="Reset zoom"]').click()
    assert newest(browser) >= all_windows
    browser.one('[aria-label="Zoom in"]').send_keys(Keys.ENTER)
    assert newest(browser) == pytest.approx(all_windows / 2, abs=2)


def rows_of_table(browser: Browser) -> list[list[str]]:
    """The table of windows, opened by the keyboard if it is not yet."""
    if not browser.run("return document.querySelector('.as-table').open"):
        browser.one(".as-table summary").send_keys(Keys.ENTER)
        browser.until(lambda: browser.all(WINDOWS), "the table")
    return rows(browser, WINDOWS)


@pytest.mark.parametrize(("name", "by"), [("Hours", "1h"), ("Days", "1d")])
def test_hours_and_days_are_those_of_tally_count_and_chosen_by_keyboard(
    browser: Browser, tally: RunningTally, web: Web, name: str, by: str
) -> None:
    opened(browser, web, RISES)
    choices = browser.all(".segments a")
    [choice] = [one for one in choices if one.text == name]
    choice.send_keys(Keys.ENTER)
    browser.until(lambda: f"by={by}" in browser.driver.current_url, "another address")
    browser.until(lambda: browser.text(".segments [aria-current]") == name, "another grain")

    def is_as_counted() -> bool:
        counted = tally.json("count", RISES, "--by", by)["windows"]
        length = 10 if by == "1d" else 16
        expected = {one["window"].replace("T", " ")[:length]: one["count"] for one in counted}
        shown = {window[:length]: count for window, count in rows_of_table(browser)}
        return {window: f"{count:,}" for window, count in expected.items()} == {
            window: count for window, count in shown.items() if count != "0"
        }

    browser.until(is_as_counted, "the windows of tally count")
    assert browser.console() == []


@pytest.fixture
def clipboard(browser: Browser, web: Web) -> Iterator[None]:
    """The page may read and write it; afterwards it is asked again."""
    allowed = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": web.url}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", allowed)
    yield
    browser.driver.execute_cdp_cmd("Browser.resetPermissions", {})


def copied(browser: Browser, name: str) -> str:
    """What is on the clipboard once the button was pressed by keyboard."""
    button = browser.one(f'[aria-label="Copy {name}"]')
    # It shows so for two seconds, in which nobody may look.
    browser.driver.execute_script(
        "const button = arguments[0]; button.shown = '';"
        "new MutationObserver(() => button.shown += button.textContent)"
        ".observe(button, {childList: true, characterData: true, subtree: true})",
        button,
    )
    button.send_keys(Keys.ENTER)
    browser.until(lambda: browser.text("#said") == f"{name} copied", "it is said")
    assert "Copied" in browser.driver.execute_script("return arguments[0].shown", button)
    script = "navigator.clipboard.readText().then(arguments[arguments.length - 1])"
    return str(browser.driver.execute_async_script(script))


@pytest.mark.usefixtures("clipboard")
def test_what_is_copied_gives_the_same_windows_elsewhere(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    counter = 'likes:it\'s \\ "here"'
    produce(tally, *[{"counter": counter, "region": "eu"}] * 7)
    tally.wait_for(
        "SELECT total FROM tally.totals WHERE counter = 'likes:it\\'s \\\\ \"here\"'", [(7,)]
    )
    opened(browser, web, counter)
    sql, curl, command = (copied(browser, name) for name in ("SQL", "curl", "tally"))
    assert sum(count for _, count in tally.rows(sql)) == 7
    answer = subprocess.run(shlex.split(curl), check=True, capture_output=True, timeout=20)
    assert _counted(json.loads(answer.stdout)) == 7
    program, *arguments = shlex.split(command)
    assert program == "tally"
    assert _counted(tally.json(*arguments)) == 7


def _counted(document: dict[str, Any]) -> int:
    return sum(int(one["count"]) for one in document["windows"])


def test_where_nothing_may_be_copied_the_text_is_selected(browser: Browser, web: Web) -> None:
    refused = {"permission": {"name": "clipboard-write"}, "setting": "denied", "origin": web.url}
    browser.driver.execute_cdp_cmd("Browser.setPermission", refused)
    try:
        opened(browser, web, RISES)
        browser.one('[aria-label="Copy tally"]').click()
        browser.until(lambda: "selected" in browser.text("#said"), "it is said")
        chosen = browser.run("return String(getSelection())")
        assert chosen == "tally count 'hashtag:#rises' --by 1m"
    finally:
        browser.driver.execute_cdp_cmd("Browser.resetPermissions", {})


def test_estimates_are_shown_as_such_with_the_bounds_of_tally_count(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    counted = tally.json("count", "visits:home")
    assert counted["low"] <= 40 <= counted["high"]
    opened(browser, web, "visits:home")
    browser.until(lambda: browser.text("#figure-total") == f"≈ {counted['total']}", "about")
    bounds = f"between {counted['low']} and {counted['high']}"
    has = partial(lambda text: text in browser.text("#main"))
    browser.until(lambda: has(bounds), bounds)
    browser.until(lambda: has("Its family is sketched"), "why")
    browser.open(f"{web.url}/#/?family=visits")
    ranked = [one["counter"] for one in tally.json("top", "visits")["top"]]
    assert ranked == ["visits:home", "visits:about"]
    browser.until(
        lambda: [one.text for one in browser.all("#main th.name")] == ranked, "the ranking"
    )


def test_corrections_are_listed_with_who_and_why(
    browser: Browser, tally: RunningTally, web: Web
) -> None:
    counter, why = "likes:corrected", "<i>counted twice</i>"
    produce(tally, *[{"counter": counter}] * 9)
    tally.run("adjust", counter, "--by", "-4", "--why", why)
    tally.wait_for(f"SELECT total FROM tally.totals WHERE counter = '{counter}'", [(5,)])
    [made] = tally.json("history", counter)["adjustments"]
    opened(browser, web, counter)
    browser.until(lambda: browser.value("#figure-adjusted") == "-4", "the correction")
    browser.until(lambda: browser.value("#figure-total") == "5", "the total")
    listed = partial(rows, browser, '[aria-labelledby="card-adjustments"] tbody tr')
    at = made["at"].replace("T", " ")[:16]
    browser.until(lambda: listed() == [[at, "-4", made["who"], why, "total"]], "who and why")


def test_a_page_says_that_clickhouse_is_away_in_the_servers_words(
    browser: Browser, tally: RunningTally, tmp_path: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    browser.look(DESKTOP)
    with Web({**tally.env, "TALLY_CLICKHOUSE": nowhere}, tmp_path / "web.txt") as alone:
        browser.open(f"{alone.url}/")
        browser.until(lambda: "Cannot list families" in browser.text(".note-error"), "an error")
        browser.open(counter_url(alone, RISES))
        browser.until(lambda: browser.text("#pulse-text") == "Trouble", "it says so")
        said = browser.text("#banner")
        assert said.startswith("Some numbers cannot be told now: ")
        assert "ClickHouse" in said
        assert browser.one("#banner").is_displayed()
    browser.open("about:blank")
    browser.console()  # Answers that were errors are told there, as they should be.


@pytest.mark.timeout(600)
def test_a_replay_is_watched_until_it_has_caught_up(
    browser: Browser, tally: RunningTally, web: Web, tmp_path: Path
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{web.url}/#/operator")
    is_live(browser)
    command = [*TALLY, "replay", "--workers", "1"]
    with Process(command, output_path=tmp_path / "replay.txt", env=tally.env) as replay:
        assert replay.wait(timeout_s=START_TIMEOUT_S) == 0
    row = partial(rows, browser, f"{BUILDS} tbody tr:nth-child(2)")
    browser.until(lambda: [one[:2] for one in row()] == [["2", "waiting"]], "it waits")
    again = RunningTally(
        tally.kafka, tally.clickhouse, settings={**tally.settings, "TALLY_BUILD": "2"}
    )
    worker = start_worker(again, tmp_path / "worker.txt")
    try:
        os.kill(worker.pid, signal.SIGSTOP)
        produce(tally, *[{"counter": "likes:again"}] * 500)
        browser.until(lambda: row()[0][1] == "replaying", "it is replayed")
        progress = browser.one(f"{BUILDS} progress:not([hidden])")
        assert progress.get_attribute("aria-label") == "replay of build 2"
        browser.until(lambda: row()[0][2] != "0", "it is behind")
        assert 0 < float(progress.get_attribute("value") or "") < 1
        os.kill(worker.pid, signal.SIGCONT)
        browser.until(lambda: row()[0][3] == "caught up", "it has caught up")
        assert float(progress.get_attribute("value") or "") == 1
    finally:
        os.kill(worker.pid, signal.SIGCONT)
        worker.kill()
