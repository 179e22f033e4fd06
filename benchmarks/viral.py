"""A counter goes viral: the plan splits it, its load spreads, and it is merged again.

Run: python -m benchmarks.viral [--high N] [--seconds S] [--write] [--json FILE]

Two workers count what two producers send: a steady load on many counters, and one counter whose
load grows a hundredfold. What the log holds is read from the log itself. In the end every minute
and every total in ClickHouse must equal what was sent. `--write` makes docs/viral.svg and the
figures in docs/sharding.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks import _viral_page as page
from benchmarks._counted import Counted
from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._log_rows import LogRows
from benchmarks._pages import written
from benchmarks._viral_load import VIRAL, Curve, Load
from benchmarks._viral_plot import plot
from benchmarks._viral_seconds import Change, Second, findings, seconds
from pipeline.planning.following import PlanFollower
from pipeline.producer import Producer
from schemas.addresses import KafkaAddress
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import tally_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks._log_rows import Seen

DOCS = Path(__file__).parents[1] / "docs"
PARTITIONS = 16
RATE_MAX = 500.0
COOL_S = 5.0
OTHERS_RATE = 1_500.0
GROWTH = 100
PRODUCERS = 2
TURN_S = 0.1
WHOLE_S = 5.0
"""It goes on for so long after the counter is whole again."""

MERGE_TIMEOUT_S = 180
COUNTED_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen: changes of the plan, and the log; times since `began_ms`."""

    began_ms: int
    changes: list[Change]
    seen: list[Seen]
    increments: int


def drive(load: Load, curve: Curve, shards: Callable[[], int]) -> list[Change]:
    """Send by the curve until the counter is whole again. Raises TimeoutError if it never is."""
    began_s = last_s = time.monotonic()
    changes = [Change(0.0, shards())]
    while True:
        now_s = time.monotonic()
        at_s = now_s - began_s
        load.turn(curve.rate(at_s), now_s - last_s)
        last_s = now_s
        if shards() != changes[-1].shards:
            changes.append(Change(at_s, shards()))
            print(f"  {at_s:5.1f} s  {changes[-1].shards} shards", file=sys.stderr)
        fallen_s = at_s - curve.fall_at_s - curve.fall_s
        if changes[-1].shards == 1 and fallen_s > 0 and at_s - changes[-1].at_s > WHOLE_S:
            return changes
        if fallen_s > MERGE_TIMEOUT_S:
            raise TimeoutError(f"not whole again after {fallen_s:.0f} s: {changes}")
        time.sleep(max(0.0, now_s + TURN_S - time.monotonic()))


def run(folder: Path, curve: Curve) -> Run:
    """Everything on fresh servers. Raises WrongAnswerError where a count is not the truth."""
    settings = {
        "TALLY_PARTITIONS": str(PARTITIONS),
        "TALLY_SHARD_RATE_MAX": str(RATE_MAX),
        "TALLY_SHARD_COOL_S": str(COOL_S),
    }
    log = EmbeddedLog(folder / "log")
    with ExitStack() as stack:
        stack.callback(log.kill)
        log.start()
        tally = stack.enter_context(tally_on(log, folder, workers=2, settings=settings))
        follower = PlanFollower(KafkaAddress(log.bootstrap))
        follower.start()
        stack.callback(follower.stop)
        rows = stack.enter_context(closing(LogRows(log.bootstrap, PARTITIONS, VIRAL)))
        counted = stack.enter_context(closing(Counted(tally.clickhouse)))
        with ExitStack() as open_producers:
            producers = [
                open_producers.enter_context(Producer(log.bootstrap)) for _ in range(PRODUCERS)
            ]
            load = Load([one.increment_many for one in producers], OTHERS_RATE)
            began_ms = time.time_ns() // 1_000_000
            changes = drive(load, curve, lambda: follower.plan.shards_of(VIRAL))
        counted.wait(rows.ends(), COUNTED_TIMEOUT_S)
        counted.check(load.windows, load.duplicates)
        return Run(began_ms, changes, rows.read_all(), sum(load.windows.values()))


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--high", type=float, default=4_000, help="increments/s; default 4000")
    options.add_argument("--seconds", type=float, default=30, help="at the height; default 30")
    options.add_argument("--write", action="store_true", help="write docs/viral.svg and figures")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    curve = Curve(given.high / GROWTH, given.high, 10, 5, given.seconds, 5)
    try:
        with TemporaryDirectory(prefix="tally-bench-") as folder:
            found = run(Path(folder), curve)
        each = seconds(found.seen, found.changes, found.began_ms, PARTITIONS)
        short = findings(each, found.changes, curve, RATE_MAX)
    except (WrongAnswerError, TimeoutError, ValueError) as error:
        sys.exit(f"viral: {error}")
    figures = page.Figures(
        curve, RATE_MAX, COOL_S, PARTITIONS, OTHERS_RATE, found.increments, os.getloadavg()[0]
    )
    print(page.over_time(each))
    print(page.measured(figures, short))
    if given.write:
        (DOCS / "viral.svg").write_text(plot(each, found.changes, curve, RATE_MAX))
        text = page.measured(figures, short)
        path = DOCS / "sharding.md"
        path.write_text(written(path.read_text(), page.BEGIN, page.END, text))
    write_json(
        given.json,
        "viral",
        {"findings": asdict(short), "seconds": [Second._asdict(one) for one in each]},
    )


if __name__ == "__main__":
    main()
