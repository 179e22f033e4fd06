"""One run: a site, senders, the schedule of a seed, quiet, and the truth checker."""

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.bugs import Bug, told
from tests.chaos.crew import Crew
from tests.chaos.harms import Harms
from tests.chaos.quiet import settle
from tests.chaos.schedule import KINDS, LULL_MORE_S, Harm, lull_ends, possible, schedule
from tests.chaos.score import Score
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


class BrokerLostError(RuntimeError):
    """The broker deleted acknowledged records itself, so the run says nothing of who counts."""


@dataclass
class Outcome:
    """What a run found, in the end and again after a replay, and what it had done."""

    seed: int
    verdict: Verdict
    harms: Score
    planned: frozenset[str] = frozenset()
    """Kinds of harm that the schedule had for this site."""

    replayed: Verdict | None = None
    bugs: Sequence[Bug] = ()
    """By what the parts printed and how they ended, whatever the numbers say."""

    @property
    def differences(self) -> list[Difference]:
        """All of them."""
        return [*self.verdict.differences, *(self.replayed.differences if self.replayed else [])]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found: neither a number that is not true nor a bug."""
        return not self.differences and not self.bugs

    @property
    def undone(self) -> list[str]:
        """Kinds that were planned and not once done amid the others."""
        return self.harms.undone(self.planned)

    def __str__(self) -> str:
        never = f"\nnever done: {', '.join(self.undone)}" if self.undone else ""
        again = f"\ncounted again from the log: {self.replayed}" if self.replayed else ""
        bugs = f"\n{told(self.bugs)}" if self.bugs else ""
        return f"seed {self.seed}\n{self.verdict}{again}{bugs}\n{self.harms}{never}"


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
    Raises AssertionError where something does not come back by itself, ExceptionGroup where a harm
    met with what no server that is away explains, and BrokerLostError; differences and bugs are in
    the outcome.
    """
    tell(f"seed {seed}: {seconds:g} s on {kind}, in {folder}")
    site = Site(kind, folder, tell)
    addresses = {
        "kafka": site.tally.kafka,
        "webs": site.web_urls,
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
        for one, why in site.impossible.items():
            tell(f"left out: {one}: {why}")
        planned = possible(schedule(seed, seconds, kinds), site.impossible)
        crew.start()
        began_s = time.monotonic()
        _play(planned, harms, lull_ends(seconds, kinds), seconds, pace)
        if lost := site.lost():
            raise BrokerLostError("the broker lost records by itself:\n" + "\n".join(lost))
        tell(f"{time.monotonic() - began_s:7.1f} s  all is made well; senders finish")
        harms.end()
        crew.finish()
        tell(f"{time.monotonic() - began_s:7.1f} s  all is acknowledged; workers count")
        verdict = _compared(site, crew, began_s, tell)
        outcome = Outcome(seed, verdict, harms.score, frozenset(harm.kind for harm in planned))
        if seconds >= REPLAYED_FROM_S and not outcome.differences:
            tell(f"{time.monotonic() - began_s:7.1f} s  all is true; the log is counted again")
            harms.replay(REPLAY_TIMEOUT_S)
            outcome.replayed = _compared(site, crew, began_s, tell)
        site.look_at_ends()
        outcome.bugs = [*site.bugs(), *crew.ends.bugs]
        if not outcome.is_well:
            _keep(folder)
    except BaseException:
        tell(site.said())
        tell(told([*site.bugs(), *crew.ends.bugs]))
        _keep(folder)
        raise
    else:
        return outcome
    finally:
        harms.over.set()
        crew.close()
        site.close()


def _play(
    planned: Sequence[Harm], harms: Harms, ends_s: Sequence[float], seconds: float, pace: float
) -> None:
    """Begin each harm in its time. A lull lasts until its replay has ended, within bounds."""
    began_s = time.monotonic()
    left = list(planned)
    for end_s in [*ends_s, seconds]:
        while left and left[0].at_s < end_s:
            time.sleep(max(0.0, began_s + left[0].at_s * pace - time.monotonic()))
            harms.begin(left.pop(0))
        time.sleep(max(0.0, began_s + end_s * pace - time.monotonic()))
        if end_s in ends_s:
            began_s += harms.wait_for_replay(LULL_MORE_S)


def _keep(folder: Path) -> None:
    """The disks go with the site; whoever looks for the cause wants to read both."""
    for data in (folder / "log" / "data", folder / "clickhouse"):
        # What is written and removed meanwhile need not be whole.
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(
                data, folder / "kept" / data.relative_to(folder), symlinks=True, dirs_exist_ok=True
            )


def _compared(site: Site, crew: Crew, began_s: float, tell: Callable[[str], None]) -> Verdict:
    """The live build beside the truth, once it has everything. Blocks."""
    settle(site.tally.kafka, site.door.url)
    tell(f"{time.monotonic() - began_s:7.1f} s  all is counted; every number is compared")
    time.sleep(CACHED_S)
    # All is well by now: the checker asks the processes themselves.
    webs = [web.url for web in site.webs]
    return check(crew.journals, site.tally.kafka, site.door.url, webs, crew.ledgers)


def tidy(folder: Path) -> None:
    """Remove what a run that found nothing left behind."""
    shutil.rmtree(folder, ignore_errors=True)
