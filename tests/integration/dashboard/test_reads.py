"""The reads behind the page answer as the commands do."""

import re

from tests.integration.dashboard.conftest import HOSTILE, counter_url
from tests.integration.dashboard.test_page import is_live
from tests.kit.chromium import Browser
from tests.kit.tally import RunningTally
from tests.kit.web import Web


def test_why_regions_and_adjustments_of_a_counter_are_those_of_the_commands(
    tally: RunningTally, web: Web
) -> None:
    tally.run("adjust", "likes:post-3", "--by", "4", "--why", "a test")
    tally.wait_for("SELECT total FROM tally.totals WHERE counter = 'likes:post-3'", [(4,)])
    path = "/api/v1/counters/likes:post-3"
    explained, expected = (
        web.client.get(f"{path}/explain").json(),
        tally.json("explain", "likes:post-3"),
    )
    assert (explained["net"], explained["adjustments"]) == (4, {"count": 1, "by": 4})
    assert explained.keys() >= expected.keys() - {"as_of", "staleness_ms", "complete"}
    [made] = web.client.get(f"{path}/history").json()["adjustments"]
    assert (made["by"], made["why"]) == (4, "a test")
    counted = web.client.get("/api/v1/counters/likes:post-1/exact").json()
    regions = web.client.get("/api/v1/counters/likes:post-1/regions").json()["regions"]
    assert {one["region"] for one in regions} == {"eu", "us"}
    assert sum(one["net"] for one in regions) == counted["net"]


def test_operators_read_dead_letters_builds_and_the_plan(tally: RunningTally, web: Web) -> None:
    letters = web.client.get("/api/v1/dead-letters").json()
    assert letters["total"] == 2
    assert sum(one["count"] for one in letters["reasons"]) == 2
    samples = [sample["sample"] for one in letters["reasons"] for sample in one["samples"]]
    assert '{"counter": 7}' in samples
    build = web.client.get("/api/v1/builds").json()["builds"][0]
    assert (build["build"], build["state"]) == (1, "live")
    assert web.client.get("/api/v1/shards").json()["partitions"] == 2


def test_a_page_that_was_left_holds_no_connection(browser: Browser, web: Web) -> None:
    def followers() -> float:
        found = re.search(
            r"^tally_web_sse_clients (\S+)$", web.client.get("/metrics").text, re.MULTILINE
        )
        return float(found[1]) if found else 0.0

    browser.open(counter_url(web, HOSTILE[0]))
    is_live(browser)
    browser.until(lambda: followers() == 1, "this page follows, and the one before no more")
    browser.driver.get("about:blank")
    browser.until(lambda: followers() == 0, "nobody follows")
