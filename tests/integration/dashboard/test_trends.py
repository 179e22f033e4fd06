"""What trends, and who came and went, as the workers scored it."""

import json
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline import topics
from tests.integration.dashboard.test_page import is_live
from tests.kit.chromium import DESKTOP, Browser
from tests.kit.tally import RunningTally
from tests.kit.web import Web

TRENDING = '[aria-labelledby="card-trending"]'
FEED = '[aria-labelledby="card-came-and-went"]'


def told(tally: RunningTally, region: str) -> list[tuple[str, str]]:
    """Who came and went by the topic, the newest first; of one minute, who entered first."""
    settings = {"bootstrap.servers": tally.kafka, "group.id": "looks"}
    place = TopicPartition(topics.TRENDS, 0, 0)
    with closing(Consumer(settings)) as consumer:
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        consumer.assign([place])
        events = [
            json.loads(message.value() or b"") for message in consumer.consume(end, timeout=20)
        ]
    found = [one for one in events if one["region"] == region and one["family"] == "hashtag"]
    found.sort(key=lambda one: (one["window_ms"], one["transition"] == "enter", one["counter"]))
    return [(one["transition"], one["counter"]) for one in reversed(found)]


def rows(browser: Browser, css: str) -> list[list[str]]:
    script = (
        "return [...document.querySelectorAll(arguments[0])].map("
        "(row) => [...row.children].map((cell) => cell.innerText.trim().replace(/\\s+/g, ' ')))"
    )
    found: list[list[str]] = browser.run(script, css)
    return found


def shown_as(one: dict[str, Any]) -> list[str]:
    """A row of the page, in the words of `tally trending --json`; a sparkline has no text."""
    expected = f"{round(one['expected']):,}"
    name = f"{one['counter']} {one['kind']}"
    return [name, "", f"{one['observed']:,}", expected, one["entered"][11:16]]


@pytest.mark.parametrize("region", ["*", "eu"])
def test_the_overview_shows_what_trends_and_who_came_and_went(
    browser: Browser, tally: RunningTally, web: Web, region: str
) -> None:
    browser.look(DESKTOP)
    browser.open(f"{web.url}/#/?family=hashtag&region={region}")
    is_live(browser)

    def is_as_told() -> bool:
        answer = tally.json("trending", "hashtag", "--region", region)
        trending = [shown_as(one) for one in answer["trending"] if one["kind"] != "top"]
        assert {one[0] for one in trending} == {"hashtag:#rises rising", "hashtag:#fresh new"}
        return rows(browser, f"{TRENDING} tbody tr") == trending

    browser.until(is_as_told, "the trends of tally trending")
    sparks = browser.all(f"{TRENDING} .spark-line")
    assert [bool(one.get_attribute("d")) for one in sparks] == [True, True]
    words = {"enter": "entered", "leave": "left"}
    moves = [[words[transition], counter] for transition, counter in told(tally, region)]
    assert moves == [
        ["entered", "hashtag:#rises"],
        ["entered", "hashtag:#fresh"],
        ["left", "hashtag:#went"],
        ["entered", "hashtag:#went"],
    ]
    shown = partial(rows, browser, f"{FEED} li")
    browser.until(lambda: [one[1:] for one in shown()] == moves, "who came and went")
    browser.all(f"{FEED} a")[2].click()
    browser.until(lambda: browser.text("h1") == "hashtag:#went", "the counter's view")
    assert browser.console() == []
