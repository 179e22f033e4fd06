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
from tests.kit.truth.differences import Difference

READY_TIMEOUT_S = 300
CACHED_S = 6.0
"""Longer than any cached answer may be old."""

RATE_PER_S = 40.0

REPLAYED_FROM_S = 300.0
"""Runs of so many seconds end with a replay: what the log says is compared as well."""

REPLAY_TIMEOUT_S = 900


@dataclass
class Outcome:
    """What a run found, in the end and again after a replay, and what it had done."""

    seed: int
    verdict: Verdict
    harms: dict[str, int] = field(default_factory=dict)
    replayed: Verdict | None = None

    @property
    def differences(self) -> list[Difference]:
        """All of them."""
        return [*self.verdict.differences, *(self.replayed.differences if self.replayed else [])]

    def __str__(self) -> str:
        done = ", ".join(f"{kind} {count}" for kind, count in sorted(self.harms.items()))
        again = f"\ncounted again from the log: {self.replayed}" if self.replayed else ""
        return f"seed {self.seed}\n{self.verdict}{again}\nharms: {done}"


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
        outcome = Outcome(seed, _compared(site, crew, began_s, tell), harms.begun)
        if seconds >= REPLAYED_FROM_S and not outcome.differences:
            tell(f"{time.monotonic() - began_s:7.1f} s  all is true; the log is counted again")
            harms.replay(REPLAY_TIMEOUT_S)
            outcome.replayed = _compared(site, crew, began_s, tell)
        if outcome.differences:
            _keep(folder)
    except BaseException:
        tell(site.said())
        _keep(folder)
        raise
    else:
        return outcome
    finally:
        harms.over.set()
        crew.close()
        site.close()


def _keep(folder: Path) -> None:
    """The disks go with the site; whoever looks for the cause wants to read both."""
    for data in (folder / "log" / "data", folder / "clickhouse"):
        # What is written and removed meanwhile need not be whole.
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(data, folder / "kept" / data.relative_to(folder), dirs_exist_ok=True)


def _compared(site: Site, crew: Crew, began_s: float, tell: Callable[[str], None]) -> Verdict:
    """The live build beside the truth, once it has everything. Blocks."""
    settle(site.tally.kafka, site.door.url)
    tell(f"{time.monotonic() - began_s:7.1f} s  all is counted; every number is compared")
    time.sleep(CACHED_S)
    webs = [web.url for web in site.webs]
    return check(crew.journals, site.tally.kafka, site.door.url, webs, crew.ledgers)


def tidy(folder: Path) -> None:
    """Remove what a run that found nothing left behind."""
    shutil.rmtree(folder, ignore_errors=True)
