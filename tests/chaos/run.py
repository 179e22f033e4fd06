"""One run: a site, senders, the schedule of a seed, quiet, and the truth checker."""

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.crew import Crew
from tests.chaos.harms import Harms
from tests.chaos.quiet import settle
from tests.chaos.schedule import KINDS, schedule
from tests.chaos.site import Site
from tests.integration.worker.events import PARTITIONS
from tests.kit.processes import wait_until
from tests.kit.truth.checker import Verdict, check

READY_TIMEOUT_S = 300
CACHED_S = 6.0
"""Longer than any cached answer may be old."""

RATE_PER_S = 40.0


@dataclass
class Outcome:
    """What a run found, and what it had done."""

    seed: int
    verdict: Verdict
    harms: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        done = ", ".join(f"{kind} {count}" for kind, count in sorted(self.harms.items()))
        return f"seed {self.seed}\n{self.verdict}\nharms: {done}"


def run(
    seed: int,
    seconds: float,
    folder: Path,
    *,
    kind: str = "embedded",
    kinds: Sequence[str] = tuple(KINDS),
    tell: Callable[[str], None] = print,
    rate: float = RATE_PER_S,
    pace: float = 1.0,
) -> Outcome:
    """Blocks for `seconds`, and then until all is counted and compared.

    With a `pace` of 3 the same harms come three times as slowly, for machines that are busy.
    Raises AssertionError where something does not come back by itself; differences are in the
    outcome.
    """
    tell(f"seed {seed}: {seconds:g} s on {kind}, in {folder}")
    site = Site(kind, folder, tell)
    addresses = {
        "kafka": site.tally.kafka,
        "webs": [web.url for web in site.webs],
        "partitions": PARTITIONS,
    }
    crew = Crew(folder, seed, rate, addresses)
    harms = Harms(site, crew, tell)
    try:
        site.start()
        wait_until(
            lambda: all(worker and "worker ready" in worker.output() for worker in site.workers),
            "workers count",
            timeout_s=READY_TIMEOUT_S,
        )
        crew.start()
        began_s = time.monotonic()
        for harm in schedule(seed, seconds, kinds):
            time.sleep(max(0.0, began_s + harm.at_s * pace - time.monotonic()))
            harms.begin(harm)
        time.sleep(max(0.0, began_s + seconds * pace - time.monotonic()))
        tell(f"{seconds * pace:7.1f} s  all is made well; senders finish")
        harms.end()
        crew.finish()
        tell(f"{time.monotonic() - began_s:7.1f} s  all is acknowledged; workers count")
        settle(site.tally.kafka, site.door.url)
        tell(f"{time.monotonic() - began_s:7.1f} s  all is counted; every number is compared")
        time.sleep(CACHED_S)
        webs = [web.url for web in site.webs]
        verdict = check(crew.journals, site.tally.kafka, site.door.url, webs, crew.ledgers)
        if verdict.differences:
            # The disks go with the site; whoever looks for the cause wants to read both.
            for data in (folder / "log" / "data", folder / "clickhouse"):
                kept = folder / "kept" / data.relative_to(folder)
                # What is written and removed meanwhile need not be whole.
                with contextlib.suppress(shutil.Error):
                    shutil.copytree(data, kept, dirs_exist_ok=True)
        return Outcome(seed, verdict, harms.begun)
    except BaseException:
        tell(site.said())
        raise
    finally:
        harms.over.set()
        crew.close()
        site.close()


def tidy(folder: Path) -> None:
    """Remove what a run that found nothing left behind."""
    shutil.rmtree(folder, ignore_errors=True)
