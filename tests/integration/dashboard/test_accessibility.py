"""Nothing on the page keeps people from using it, as far as axe-core can tell."""

import pytest

from tests.integration.dashboard.test_page import VIEWS, is_live
from tests.kit.axe import axe_script, findings
from tests.kit.chromium import DESKTOP, PHONE, Browser
from tests.kit.web import Web


@pytest.fixture(scope="module")
def axe(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe_script(tmp_path_factory.mktemp("axe"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_view_has_serious_findings(
    browser: Browser, web: Web, axe: str, size: tuple[int, int], dark: bool
) -> None:
    browser.look(size, dark=dark)
    for view in VIEWS:
        browser.open(f"{web.url}/{view}")
        is_live(browser)
        browser.until(lambda: not browser.all(".note-loading:not([hidden])"), "all is loaded")
        assert findings(browser, axe) == [], view
