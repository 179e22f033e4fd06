"""What each fault costs, for how long: counts, increments and reads of a whole Tally.

Run: python -m benchmarks.faults [--only KIND ...] [--rounds 3] [--write] [--json FILE]

Two workers and two web processes run with their default settings on an embedded log and ClickHouse,
each on a small disk of its own and behind a proxy. A producer sends some 200 increments a second,
each is looked for in the views, and a total is read over HTTP ten times a second. Then each fault
is done alone, by the hands of tests/chaos, and the site is left to be well again before the next.

Well means: all parts run, the workers share all partitions, both web processes give a complete
answer, and for five seconds nothing was behind. A fault after which that does not come raises.
After each round every counter must be what was acknowledged: WrongAnswerError if anything is lost
or doubled. Without root there are no small disks: what fills them is left out, and told. `--write`
writes the table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import httpx

from benchmarks._faults_cost import cost
from benchmarks._faults_kinds import FAULTS, NONE, Fault, in_turn
from benchmarks._faults_page import BEGIN, END, Found, page
from benchmarks._faults_reads import Reads
from benchmarks._faults_stream import COUNTERS, RATE_PER_S, Stream
from benchmarks._kit import Outcome, WrongAnswerError, write_json
from benchmarks._pages import written
from tests.chaos.crew import Crew
from tests.chaos.harms import Harms
from tests.chaos.quiet import settle
from tests.chaos.score import Fate
from tests.chaos.site import Site
from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.site import READY
from tests.kit.processes import wait_until
from tests.kit.truth.expected import ALL
from tests.kit.truth.in_clickhouse import ClickHouse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._faults_cost import Cost
    from tests.kit.web import Web

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
TOTAL = f"/api/v1/counters/{COUNTERS[0]}"
BEHIND_S_MAX = 3.0
STEADY_S = 5.0
"""All must have been well for so long. Longer than a read may take: all of the fault have ended."""

POLL_S = 0.2
KEEPER_S_MAX = 0.1
"""To look whether a part runs takes its keeper no longer."""

WELL_TIMEOUT_S = 300.0


@dataclass
class Measured:
    """A site under a stream and reads, to which faults are done."""

    site: Site
    harms: Harms
    stream: Stream
    reads: Reads

    def cost_of(self, fault: Fault, number: int) -> Cost:
        """Do it to the part with this number, and wait until all is well. Blocks.

        Raises RuntimeError where it took no effect, AssertionError where not all becomes well.
        """
        began_s = time.monotonic()
        if not fault.kind:
            time.sleep(fault.for_s)
        elif (fate := self.harms.do(fault.harm(number))) is not Fate.DONE:
            raise RuntimeError(f"{fault.name} took no effect: it was {fate}")
        well_s = self.well_since()
        return cost(
            fault.name,
            began_s,
            well_s,
            counted=self.stream.counted,
            acknowledged=self.stream.acknowledged,
            reads=self.reads.done,
        )

    def well_since(self) -> float:
        """Block until all has been well for a while; since when. Raises AssertionError in vain."""
        assert self.reads.longest_s < STEADY_S
        since_s = [time.monotonic()]

        def is_steady() -> bool:
            if not self._is_well():
                since_s[0] = time.monotonic()
            return time.monotonic() - since_s[0] >= STEADY_S

        wait_until(is_steady, "all is well", timeout_s=WELL_TIMEOUT_S, poll_s=POLL_S)
        return since_s[0]

    def compare(self) -> None:
        """Block until everything is counted; raises WrongAnswerError unless it is the truth."""
        self.stream.pause()
        settle(self.site.tally.kafka, self.site.door.url)
        server = ClickHouse(self.site.door.url)
        try:
            expected = {(counter,): count for counter, count in self.stream.truth.items()}
            Outcome(0, 0, server.totals(), expected).check("totals")
            minutes = dict.fromkeys(expected, 0)
            for (counter, region, _), count in server.counts("1m").items():
                if region == ALL:
                    minutes[counter,] += count
            Outcome(0, 0, minutes, expected).check("minutes")
            if letters := server.letters():
                raise WrongAnswerError(f"{len(letters)} dead letters, for example {letters[0]}")
        finally:
            server.close()
        self.stream.resume()

    def _is_well(self) -> bool:
        self.stream.check()
        self.reads.check()
        return (
            all(map(self._runs, self.site.locks))
            and self.stream.behind_s() < BEHIND_S_MAX
            and sum(self._shares()) == PARTITIONS
            and all(map(_answers, self.site.webs))
        )

    def _runs(self, part: str) -> bool:
        """Whether it is there, and nobody waits for it to be ready."""
        lock = self.site.locks[part]  # Its keeper holds it while it starts it.
        if not lock.acquire(timeout=KEEPER_S_MAX):
            return False
        lock.release()
        return self.site.runs(part)

    def _shares(self) -> list[int]:
        """How many partitions each worker has; none of one that is away or has not begun."""
        shares = []
        for worker in self.site.workers:
            found = READY.findall(worker.output()) if worker and worker.running else []
            shares.append(int(found[-1]) if found else 0)
        return shares if all(shares) else []


def _answers(web: Web) -> bool:
    """Whether a process gives a complete total now."""
    try:
        answer = web.client.get(TOTAL, timeout=STEADY_S).raise_for_status()
    except httpx.HTTPError:
        return False
    return bool(answer.json()["complete"])


def run(folder: Path, names: Sequence[str], rounds: int) -> Found:
    """All of it, on a site of its own. Raises WrongAnswerError for a count that is not exact."""
    site = Site("embedded", folder, _tell, settings={})
    costs: list[Cost] = []
    with ExitStack() as stack:
        stack.callback(site.close)
        site.start()
        left_out = {name: site.impossible[name] for name in names if name in site.impossible}
        for name, why in left_out.items():
            _tell(f"left out: {name}: {why}")
        possible = [name for name in names if name not in left_out]
        stream = stack.enter_context(Stream(site.tally.kafka, site.door.url))
        reads = stack.enter_context(Reads([web.url for web in site.webs], TOTAL))
        harms = Harms(site, Crew(folder, 0, 0.0, {}), _tell)
        measured = Measured(site, harms, stream, reads)
        try:
            measured.well_since()
            reads.reasons()  # Of the beginning nobody wants to know.
            for number in range(rounds):
                for fault in in_turn(possible, number):
                    costs.append(measured.cost_of(fault, number))
                    _tell(f"round {number + 1}: {costs[-1]} {reads.reasons() or ''}")
                measured.compare()
        except BaseException:
            _tell(site.said())
            raise
        increments = sum(stream.truth.values())
    return Found(costs, rounds, RATE_PER_S, len(COUNTERS), increments, stream.fell, left_out)


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--only",
        nargs="+",
        action="extend",
        choices=[name for name in FAULTS if name != NONE],
        metavar="KIND",
        help=f"of: {', '.join(name for name in FAULTS if name != NONE)}",
    )
    options.add_argument("--rounds", type=int, default=3, help="default 3")
    options.add_argument("--write", action="store_true", help="write into docs/reliability.md")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    if given.write and given.only:
        options.error("--write needs all faults")
    chosen = [NONE, *given.only] if given.only else list(FAULTS)
    names = [name for name in FAULTS if name in chosen]
    with TemporaryDirectory(prefix="tally-bench-", ignore_cleanup_errors=True) as name:
        found = run(Path(name), names, given.rounds)
    machine = f"The machine's load average was {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores."
    text = page(found, machine)
    print(text)
    if given.write:
        PAGE.write_text(written(PAGE.read_text(), BEGIN, END, text))
    write_json(given.json, "faults", asdict(found))


if __name__ == "__main__":
    main()
