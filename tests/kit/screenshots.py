"""The pictures of the dashboard in docs/images: `python -m tests.kit.screenshots [FOLDER]`.

They show a new `tally demo`, as anybody sees it after some minutes, with a correction and two
refused events. Needs Debian's chromium and chromium-driver; takes five to eight minutes.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from pipeline import topics
from tests.kit.chromium import Browser, chromium, why_no_chromium
from tests.kit.processes import Process, wait_until
from tests.kit.tally import START_TIMEOUT_S, TALLY, RunningTally

IMAGES = Path(__file__).parents[2] / "docs" / "images"
RATE = 500
TRENDS_TIMEOUT_S = 600
FRESH_TIMEOUT_S = 300
REFUSED = (b'{"counter": "post-42"}', b'{"counter": "likes:post-42", "delta": "many"}')
FEED = '[aria-labelledby="card-came-and-went"] li'
TRENDING = '[aria-labelledby="card-trending"] tbody tr'


class Picture(NamedTuple):
    """One file, of which view and how."""

    name: str
    view: str
    width: int = 1280
    dark: bool = False


PICTURES = (
    Picture("overview", "#/?family=hashtag"),
    Picture("overview-dark", "#/?family=hashtag", dark=True),
    Picture("counter", "#/counter/hashtag%3A%23cats"),
    Picture("operator", "#/operator", dark=True),
    Picture("phone", "#/?family=hashtag", width=390),
)


@contextmanager
def demo(folder: Path) -> Iterator[tuple[RunningTally, str]]:
    """`tally demo` on ephemeral ports, and the address of its dashboard."""
    data = folder / "data"
    ports = ["--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0"]
    command = [*TALLY, "demo", "--data", str(data), "--rate", str(RATE), *ports]
    with Process(command, output_path=folder / "demo.txt") as running:
        file = data / "addresses.json"
        wait_until(file.exists, "the demo runs", timeout_s=START_TIMEOUT_S)
        found = json.loads(file.read_text())
        yield RunningTally(found["kafka"], found["clickhouse"]), f"http://{found['web']}"
        running.stop(timeout_s=30)


def prepare(tally: RunningTally) -> None:
    """What makes views worth looking at: a correction, and events that were refused."""
    why = ("--who", "ada", "--why", "a test of ours was counted")
    tally.run("adjust", "hashtag:#cats", "--by", "-120", *why)
    producer = Producer({"bootstrap.servers": tally.kafka})
    for value in REFUSED:
        producer.produce(topics.INCREMENTS, value)
    assert producer.flush(20) == 0


def wait_for_trends(browser: Browser, url: str) -> None:
    """Block until something trends, and something began and something ceased to."""
    browser.look()
    browser.open(f"{url}/{PICTURES[0].view}")

    def is_lively() -> bool:
        told = {one.text.split()[1] for one in browser.all(FEED)}
        return {"entered", "left"} <= told and len(browser.all(FEED)) > 2 and bool(trends())

    def trends() -> object:
        return browser.all(TRENDING)

    wait_until(is_lively, "trends", timeout_s=TRENDS_TIMEOUT_S, poll_s=1.0)


def is_fresh(browser: Browser) -> bool:
    """Whether the page shows counts of seconds ago: a busy machine's delays are not it."""
    age = re.fullmatch(r"(\d+ ms|[0-4](\.\d)? s) old", browser.text("#pulse-age"))
    return age is not None and "ClickHouse is slow" not in browser.text("main")


def take(browser: Browser, url: str, picture: Picture, folder: Path) -> None:
    """The whole page, however long."""
    browser.look((picture.width, 900), dark=picture.dark)
    browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.open(f"{url}/{picture.view}")
    browser.until(lambda: browser.text("#pulse-text") == "Live", "the page is live")
    browser.until(lambda: not browser.all(".note-loading:not([hidden])"), "all is loaded")
    wait_until(lambda: is_fresh(browser), "fresh counts", timeout_s=FRESH_TIMEOUT_S, poll_s=0.5)
    for details in browser.all(".letters details"):
        details.click()
    height = int(browser.run("return document.documentElement.scrollHeight"))
    browser.look((picture.width, height), dark=picture.dark)
    browser.driver.save_screenshot(str(folder / f"dashboard-{picture.name}.png"))


def main() -> None:
    if (reason := why_no_chromium()) is not None:
        sys.exit(reason)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, demo(Path(data)) as (tally, url):
        prepare(tally)
        with chromium() as browser:
            wait_for_trends(browser, url)
            for picture in PICTURES:
                take(browser, url, picture, folder)


if __name__ == "__main__":
    main()
