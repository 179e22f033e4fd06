"""A small site that has counted some of everything, to be spoiled: what the checker must see."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.chaos.buyers import Buyer
from tests.chaos.quiet import settle
from tests.chaos.rules import FIRST
from tests.chaos.senders.foreign import Foreign
from tests.chaos.workload import Workload, refusables
from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.site import make_topic
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import RunningTally, tally_on
from tests.kit.truth.checker import Verdict, check
from tests.kit.truth.kinds import family_of
from tests.kit.truth.ledger import Ledger
from tests.kit.truth.record import Document, Journal
from tests.kit.waiting import eventually
from tests.kit.web import Web

SETTINGS = {
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "3600",
    "TALLY_TRENDS_INTERVAL_S": "3600",
    "TALLY_VERIFY_INTERVAL_S": "3600",
}
SPOILT = ("lost", "doubled", "minute", "region", "members", "other", "adjusted")
"""Counters of their own for each way to be spoiled."""

FEW = {"likes:key-1", "likes:key-2", "views:key-1", "views:key-2", "hearts:post-1", "hearts:post-2"}
"""Each counter is some questions to the web API."""

REFUSED = range(5000, 5040)
"""Numbers of what must be refused: some of each sort."""


@dataclass
class Checked:
    """A small site that has counted everything, and the journal of what was sent."""

    tally: RunningTally
    web: Web
    journal: Path
    ledger: Path

    def verdict(self, journal: Path | None = None, ledger: Path | None = None) -> Verdict:
        """By the site's own journal with the web API, or by another one in ClickHouse alone."""
        assert self.tally.door is not None
        webs = [self.web.url] if journal is None else []
        return check(
            [journal or self.journal],
            self.tally.kafka,
            self.tally.door.url,
            webs,
            [ledger or self.ledger],
        )

    def command(self, statement: str) -> None:
        client = self.tally.client()
        client.command(statement)
        client.close()


@contextmanager
def small_site(folder: Path) -> Iterator[Checked]:
    """All is counted when it is there."""
    log = EmbeddedLog(folder / "log")
    log.start()
    rules = folder / "tally.toml"
    rules.write_text(FIRST)
    try:
        make_topic(log.bootstrap)
        settings = {**SETTINGS, "TALLY_CONFIG": str(rules)}
        with tally_on(log, folder, settings=settings) as tally:
            path, ledger = folder / "one.journal", folder / "one.ledger"
            send(tally.kafka, path)
            assert tally.door is not None
            settle(tally.kafka, tally.door.url)
            with Web(tally.env, folder / "web.txt") as web:
                buy(web.url, ledger)
                eventually(lambda: len(tally.rows(VALUES)) == 2, "strict values are flushed")
                adjust(tally)
                yield Checked(tally, web, path, ledger)
    finally:
        log.kill()


VALUES = "SELECT counter FROM tally.strict_totals WHERE value = 3"


def send(kafka: str, path: Path) -> None:
    """Some of every sort, all acknowledged; counters of their own for each way to be spoiled."""
    now_ms = time.time_ns() // 1_000_000
    workload = Workload(1, "truth", 0, all_have_marks=True)
    journal, way = Journal(path), Foreign(kafka, PARTITIONS)
    made = {number: workload.document(number, now_ms) for number in range(300)}
    documents = {n: one for n, one in made.items() if _is_of_few(one)}
    for number, key in enumerate(SPOILT):
        for more in range(10):
            documents[1000 + 10 * number + more] = {
                "counter": f"spoilt:{key}",
                "delta": 5 + number,
                "at": now_ms,
                "region": "eu",
                "member": f"only-{number}-{more}",
            }
    journal.send(documents)
    way.send(documents)
    reasons = set()
    for number in REFUSED:
        refusable = workload.refusable(number, now_ms)
        reasons.add(refusable.why)
        journal.send_refusable(number, refusable)
        way.send_refusable(number, refusable.text)
    journal.acknowledge(way.acknowledged(30))
    assert len(journal.acknowledged) == len(documents) + len(REFUSED)
    assert reasons == {why for _, why in refusables(now_ms)}
    journal.close()


def adjust(tally: RunningTally) -> None:
    """Correct a counter's total, and a minute, an hour and a day of it, in two regions.

    The minute is not the newest one of its family, of which rankings have others.
    """
    now = datetime.now(UTC)
    minute = f"{now - timedelta(minutes=40):%Y-%m-%dT%H:%M}"
    hour = f"{now:%Y-%m-%dT%H:00}"
    yesterday = f"{now - timedelta(days=1):%Y-%m-%d}"
    for options in (
        ("--by", "100"),
        ("--by=-2", "--region", "eu", "--grain", "1m", "--window", minute),
        ("--by", "7", "--grain", "1h", "--window", hour),
        ("--by", "5", "--region", "eu", "--grain", "1d", "--window", yesterday),
    ):
        tally.json("adjust", "spoilt:adjusted", "--why", "a test", "--wait", *options)


def _is_of_few(document: Document) -> bool:
    return document["counter"] in FEW or family_of(document) == "words"


def buy(url: str, path: Path) -> None:
    """Of two strict counters: something comes in, is sold, and is asked for in vain. And quotas."""
    ledger = Ledger(path)
    buyer = Buyer(ledger, [url], "truth", 1.0, threading.Event())
    for counter in ("stock:one", "stock:two"):
        wanted = (("increment", 5), ("decrement", 2), ("decrement", 4), ("decrement", 3))
        for what, amount in (*wanted, ("increment", 3)):
            id_ = f"{counter}-{len(ledger.commands)}"
            command = {"counter": counter, "what": what, "amount": amount, "id": id_}
            buyer.ask(ledger.ask(command))
    for counter in ("calls:one", "rate:one"):
        for number in range(9):
            command = {"counter": counter, "what": "acquire", "amount": 3, "id": f"call-{number}"}
            buyer.ask(ledger.ask(command))
    stock = [
        ledger.answers[number][0].accepted
        for number, command in ledger.commands.items()
        if command["what"] != "acquire"
    ]
    assert stock == [True, True, False, True, True] * 2
    buyer.close()
    ledger.close()
