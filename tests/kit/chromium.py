"""A real Chromium for tests, driven as a reader would use it: Debian's package and its driver."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.kit.processes import wait_until

DESKTOP = (1280, 900)
PHONE = (390, 844)
NARROWEST = (360, 740)
SHOWN_TIMEOUT_S = 40
LOAD_TIMEOUT_S = 60

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)


def why_no_chromium() -> str | None:
    """One line that says what is missing to drive a Chromium, or None when nothing is."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"no Chromium: {program} is not installed (Debian's package {package})"
    return None


def required(reason: str | None) -> None:
    """Skip the test for a reason; fail it instead under TALLY_REQUIRE_CHROMIUM=1."""
    if reason is None:
        return
    if os.environ.get("TALLY_REQUIRE_CHROMIUM") == "1":
        pytest.fail(f"{reason} (TALLY_REQUIRE_CHROMIUM=1)", pytrace=False)
    pytest.skip(reason)


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def look(self, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> None:
        """Have this size and colours from now on."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def open(self, url: str) -> None:
        """Load a page anew, also if only what is after its # is another."""
        self.driver.get("about:blank")
        self.driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        """The first, as soon as it is there."""
        self.until(lambda: self.all(css), css)
        return self.all(css)[0]

    def text(self, css: str) -> str:
        """What is written in the first, whether or not it is in sight; "" when there is none."""
        script = "return document.querySelector(arguments[0])?.textContent ?? ''"
        return str(self.run(script, css))

    def value(self, css: str) -> str:
        """The machine's form of a number."""
        script = "return document.querySelector(arguments[0])?.value ?? ''"
        return str(self.run(script, css))

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Block until it is so; fail with what the page shows."""

        def is_so() -> object:
            try:
                return condition()
            except StaleElementReferenceException:
                return False

        try:
            wait_until(is_so, what, timeout_s=SHOWN_TIMEOUT_S, poll_s=0.1)
        except AssertionError as error:
            shown = str(self.run("return document.body.innerText"))[:3000]
            raise AssertionError(f"{error}\nThe page shows:\n{shown}\n{self.console()}") from None

    def console(self) -> list[str]:
        """What the page complained of since it was asked last: errors, refusals of its policy."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in entries if entry["level"] != "INFO"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is closed on the way out."""
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    try:
        driver.set_page_load_timeout(LOAD_TIMEOUT_S)
        yield Browser(driver)
    finally:
        driver.quit()
